/* rates: what happened between two answers of a server. */
#ifndef TOOLS_RATES_H
#define TOOLS_RATES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Two answers, the older one of which may be NULL (the first look, or a server that was started
 * since then): then rates are 0, and distributions those of the server's whole life. */
struct rates {
    const json_t *now, *before;
    double seconds; /* between them; 0 without `before` */
};

struct rates rates_make(const json_t *now, const json_t *before);

/* By how much the number at this path grew, in all or per second. */
uint64_t rates_growth(const struct rates *p, const char *path);
double rates_per_second(const struct rates *p, const char *path);

/* The pair of what both answers say about one disk or client: member `list`, the i-th of now. */
struct rates rates_row(const struct rates *p, const char *list, size_t i);

/* Of the durations at this path ("commits.time") in between, or of the whole life if there was
 * none. */
uint64_t rates_quantile(const struct rates *p, const char *path, double quantile);
uint64_t rates_commit_quantile(const struct rates *p, double quantile); /* "commits.time" */

#endif
