/* load: runs it, from the first connection to the last answer.  The phases: load_state.h. */
#ifndef NBDLOAD_LOAD_H
#define NBDLOAD_LOAD_H

#include "load_state.h"

/* Returns when it has ended; -1: it could not begin, for a reason that was reported. */
int load_run(struct load *load);

/* Of the load as a whole, from what happened. */
int load_exit_code(const struct load *load);

#endif
