/* load_state: clients that send what a pattern says, and how far they are.
 *
 *      CONNECTING --all ready--> WARMING --warmup--> RUNNING --time or number--> DRAINING
 *      --no operation left--> FLUSHING --all answered--> ENDED
 *
 * The server's death or the user's signal leads to ENDED from everywhere.
 */
#ifndef NBDLOAD_LOAD_STATE_H
#define NBDLOAD_LOAD_STATE_H

#include "lane.h"
#include "measure.h"
#include "options.h"
#include "trace.h"

enum load_phase {
    LOAD_CONNECTING,
    LOAD_WARMING,
    LOAD_RUNNING,
    LOAD_DRAINING,
    LOAD_FLUSHING,
    LOAD_ENDED,
};

struct load {
    const struct options *options;
    struct ev_loop *loop;
    struct connections connections;
    struct timers timers;

    enum load_phase phase;
    struct target *targets;
    struct client *clients;
    struct connection *connection; /* all of them, client by client */
    size_t connection_count;
    struct lane *lanes;
    size_t lane_count;
    unsigned char *pool; /* random bytes to write */
    uint64_t weight_sum;

    size_t opened; /* connections that were begun to be made */
    size_t ready;
    size_t busy;     /* lanes that do not rest */
    size_t flushing; /* final flushes not answered */

    uint64_t begin_ns;    /* of the load, with its warm-up */
    uint64_t next_due_ns; /* open loop */
    struct random random;
    struct timer phase_timer; /* the warm-up's or the run's end */
    ev_timer watch;           /* progress, and whether there still is some */
    ev_signal interrupts[2];
    uint64_t watch_answered, watch_ns; /* when the last answer was seen */

    struct measurement m;
    const struct trace *trace;   /* of the pattern with this name */
    struct ledger *ledger;       /* null: nothing is verified */
    char broken[512];            /* what was read and is wrong; empty: nothing */
    const struct server *server; /* what it says of itself; null: it is not asked */
    int signal;                  /* that ended it; 0: none */
    int refused;                 /* exit code, if `gone` is not the server's fault */
    char gone[512];              /* why it could not go on; empty: it could */
};

/* The payload of a write that is not verified begins at one of so many places in the pool. */
#define POOL_STARTS 4096u

#endif
