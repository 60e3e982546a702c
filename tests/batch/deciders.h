/* deciders: all policies that are compared. */
#ifndef TESTS_BATCH_DECIDERS_H
#define TESTS_BATCH_DECIDERS_H

#include "world.h"

/* journal/batch with each of its policies. */
extern const struct decider module_deciders[];
#define MODULE_DECIDERS 4
#define DECIDER_NONE 0
#define DECIDER_RALLY 3

/* What others do, and what else was tried: in these files only, to have something to compare
 * with. */
extern const struct decider rival_deciders[];
#define RIVAL_DECIDERS 9
#define DECIDER_KERNEL (MODULE_DECIDERS + 1)

#endif
