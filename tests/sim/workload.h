/* workload: a short list of operations, carried out one after the other, instead of what chance
 * would choose.
 *
 * The operations are few, and each is a situation of its own: requests that lie on block
 * boundaries, inside a block, across two, over everything; commits and checkpoints; a stop, a
 * kill, a power cut; an image whose size changes.  So all workloads of up to three of them can be
 * run, and what a bug needs is seldom more (most that were ever found in file systems by crash
 * testing need one or two).  The seed still chooses how: into which pieces a write falls, who goes
 * first, which crash states are sampled.
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "world.h"

#define WORKLOAD_MAX 16 /* operations */

struct workload {
    unsigned count;
    uint8_t ops[WORKLOAD_MAX]; /* numbers of operations */
    /* Each request by a client of its own, and none waits for the one before it. */
    bool side_by_side;
    uint64_t seed;
    enum fate fate; /* how it ends: KILL or POWER */
};

unsigned workload_op_count(void);
/* NULL: there is no such number. */
const char *workload_op_name(unsigned op);
/* As in a replay: numbers, joined by commas. */
bool workload_parse(struct workload *workload, const char *text);

/* What is looked at, besides the state that the end leaves. */
enum workload_look {
    LOOK_END, /* nothing */
    LOOK_LAST, /* every event from the last operation on: what is before it is a shorter workload */
    LOOK_ALL, /* every event */
};

/* Carries it out, ends it, starts again, writes, ends that too, and stops clean.  `fault`: at most
 * one call before the first end fails; NULL: none.  *io_calls: how many could have.  False: a
 * failure. */
bool workload_run(const struct workload *workload, enum workload_look look,
                  const struct io_fault *fault, const struct world_options *options,
                  struct world_counts *counts, uint64_t *io_calls);

/* Carries it out, cuts the power, and has the world looked at that is left.  False: a failure. */
bool workload_dive(const struct workload *workload, bool (*look)(struct world *w, void *opaque),
                   void *opaque, const struct world_options *options,
                   struct world_counts *counts);

#endif
