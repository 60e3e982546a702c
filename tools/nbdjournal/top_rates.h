/* top_rates: what happened between two answers of a server. */
#ifndef NBDJOURNAL_TOP_RATES_H
#define NBDJOURNAL_TOP_RATES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Two answers, the older one of which may be NULL (the first look, or a server that was started
 * since then): then rates are 0, and distributions those of the server's whole life. */
struct top_pair {
    const json_t *now, *before;
    double seconds; /* between them; 0 without `before` */
};

struct top_pair top_pair_make(const json_t *now, const json_t *before);

/* By how much the number at this path grew, in all or per second. */
uint64_t top_growth(const struct top_pair *p, const char *path);
double top_rate(const struct top_pair *p, const char *path);

/* The pair of what both answers say about one disk or client: member `list`, the i-th of now. */
struct top_pair top_pair_row(const struct top_pair *p, const char *list, size_t i);

/* Commit times in between, or of the whole life if there was none. */
uint64_t top_commit_quantile(const struct top_pair *p, double quantile);

#endif
