/* rng: the only source of chance in the simulator.  One seed, one story. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t rng_next(struct rng *rng)
{
    return rng_mix(rng->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* 0..n-1; n > 0. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return rng_next(rng) % n;
}

/* low..high, both included. */
static inline uint64_t rng_range(struct rng *rng, uint64_t low, uint64_t high)
{
    return low + rng_below(rng, high - low + 1);
}

static inline bool rng_chance(struct rng *rng, unsigned percent)
{
    return rng_below(rng, 100) < percent;
}

/* A stream of its own for (a, b, c), so that one use of chance never shifts another. */
static inline struct rng rng_stream(uint64_t a, uint64_t b, uint64_t c)
{
    return (struct rng){rng_mix(rng_mix(rng_mix(a + 1) ^ (b + 2)) ^ (c + 3))};
}

#endif
