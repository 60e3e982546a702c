/* chance: random numbers with the distributions that clients and devices have. */
#ifndef TESTS_BATCH_CHANCE_H
#define TESTS_BATCH_CHANCE_H

#include <math.h>

#include "rng.h"

static inline double chance_uniform(struct rng *rng) /* [0, 1) */
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

static inline double chance_between(struct rng *rng, double low, double high)
{
    return low + (high - low) * chance_uniform(rng);
}

static inline double chance_exponential(struct rng *rng, double mean)
{
    return -mean * log(1 - chance_uniform(rng));
}

static inline double chance_normal(struct rng *rng)
{
    double radius = sqrt(-2 * log(1 - chance_uniform(rng)));

    return radius * cos(2 * M_PI * chance_uniform(rng));
}

/* Its mean is `mean`, whatever sigma is. */
static inline double chance_lognormal(struct rng *rng, double mean, double sigma)
{
    return mean * exp(sigma * chance_normal(rng) - sigma * sigma / 2);
}

static inline double chance_pareto(struct rng *rng, double alpha) /* from 1 on */
{
    return pow(1 - chance_uniform(rng), -1 / alpha);
}

#endif
