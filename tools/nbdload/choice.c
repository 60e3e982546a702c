/* choice: see choice.h. */
#include <assert.h>

#include "choice.h"

/* SplitMix64: a counter and a hash of it.  Any seed is a good one. */
uint64_t random_next(struct random *random)
{
    uint64_t x = random->state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t random_below(struct random *random, uint64_t limit)
{
    assert(limit > 0);
    /* The bias is limit / 2^64. */
    return (uint64_t)(((unsigned __int128)random_next(random) * limit) >> 64);
}

double random_unit(struct random *random)
{
    return ((random_next(random) >> 11) + 1) * 0x1p-53;
}
