/* pace: when a lane begins its next operation.
 *
 * In a closed loop when it is done with one (and has thought); in an open loop operations are
 * due at times that nobody but the clock decides, and the next free lane takes the oldest.
 */
#ifndef NBDLOAD_PACE_H
#define NBDLOAD_PACE_H

#include "lane.h"

/* The lane is free: its next operation begins now, later, or never. */
void pace_next(struct lane *lane, uint64_t now_ns);

#endif
