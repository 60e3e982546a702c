/* histogram: latencies from nanoseconds to an hour, each kept to better than 1 percent.
 *
 * The layout is that of HdrHistogram: values below 256 have a bucket each, above that every
 * power of two is cut into 128 equal buckets.  Recording is a few instructions and never
 * allocates, so that measuring does not disturb what is measured.  (Debian 12 has no library
 * of it for C.)
 */
#ifndef JOURNAL_HISTOGRAM_H
#define JOURNAL_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 7
#define HISTOGRAM_SUB (1u << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_TOP_BITS 42 /* 2^42 ns: 73 minutes; longer ones are counted as that */
#define HISTOGRAM_BUCKETS \
    (2 * HISTOGRAM_SUB + (HISTOGRAM_TOP_BITS - HISTOGRAM_SUB_BITS - 1) * HISTOGRAM_SUB)

struct histogram {
    uint64_t count;
    uint64_t min, max; /* exact; min is meaningless while count is 0 */
    double sum;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_record(struct histogram *h, uint64_t value);

/* The value that `quantile` (0 to 1) of all recorded ones do not exceed, to the precision of
 * the buckets; 0 when nothing was recorded. */
uint64_t histogram_quantile(const struct histogram *h, double quantile);

/* In which bucket a value is counted. */
unsigned histogram_bucket_of(uint64_t value);

/* The largest value that is counted in this bucket. */
uint64_t histogram_bucket_top(unsigned bucket);

double histogram_mean(const struct histogram *h);

/* Adds what `from` holds. */
void histogram_add(struct histogram *h, const struct histogram *from);

#endif
