/* quantity: sizes and times as people write them. */
#ifndef NBDLOAD_QUANTITY_H
#define NBDLOAD_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

/* "4k", "1.5M", "2GiB"; false: it is none. */
bool quantity_size(const char *text, uint64_t *bytes);
/* "10", "1.5s", "200us". */
bool quantity_time(const char *text, uint64_t *ns);
/* A number from min to max; *end is what follows it. */
bool quantity_number(const char *text, double min, double max, double *value, char **end);

#endif
