/* replay: a client that sends what a trace says, on all its lanes, in the trace's order. */
#ifndef NBDLOAD_REPLAY_H
#define NBDLOAD_REPLAY_H

struct client;
struct lane;

/* The lane is free for a request of the trace. */
void replay_lane_free(struct lane *lane);

#endif
