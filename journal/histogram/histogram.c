/* histogram: see histogram.h. */
#include <math.h>

#include "histogram.h"

unsigned histogram_bucket_of(uint64_t value)
{
    unsigned shift;

    if (value < 2 * HISTOGRAM_SUB)
        return value;
    if (value >> HISTOGRAM_TOP_BITS != 0)
        return HISTOGRAM_BUCKETS - 1;
    shift = 63 - __builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return shift * HISTOGRAM_SUB + (value >> shift);
}

uint64_t histogram_bucket_top(unsigned bucket)
{
    unsigned shift;

    if (bucket < 2 * HISTOGRAM_SUB)
        return bucket;
    shift = bucket / HISTOGRAM_SUB - 1;
    return ((uint64_t)(bucket % HISTOGRAM_SUB + HISTOGRAM_SUB + 1) << shift) - 1;
}

void histogram_record(struct histogram *h, uint64_t value)
{
    if (h->count == 0 || value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
    h->count++;
    h->sum += value;
    h->buckets[histogram_bucket_of(value)]++;
}

uint64_t histogram_quantile(const struct histogram *h, double quantile)
{
    /* 0.007 * 1000 is a little more than 7. */
    uint64_t rank = (uint64_t)ceil(quantile * (double)h->count - 1e-6), seen = 0;

    if (h->count == 0)
        return 0;
    if (rank == 0)
        rank = 1;
    if (rank >= h->count)
        return h->max;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen >= rank)
            return histogram_bucket_top(i) < h->max ? histogram_bucket_top(i) : h->max;
    }
    return h->max;
}

double histogram_mean(const struct histogram *h)
{
    return h->count == 0 ? 0 : h->sum / h->count;
}

void histogram_add(struct histogram *h, const struct histogram *from)
{
    if (from->count == 0)
        return;
    if (h->count == 0 || from->min < h->min)
        h->min = from->min;
    if (from->max > h->max)
        h->max = from->max;
    h->count += from->count;
    h->sum += from->sum;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        h->buckets[i] += from->buckets[i];
}
