/* choice: which bytes the next request is for.  From a seed, so that a run can be repeated. */
#ifndef NBDLOAD_CHOICE_H
#define NBDLOAD_CHOICE_H

#include <stdint.h>

struct random {
    uint64_t state;
};

uint64_t random_next(struct random *random);

/* Below `limit`, which is not 0. */
uint64_t random_below(struct random *random, uint64_t limit);

/* From 0 to 1, never 0. */
double random_unit(struct random *random);

#endif
