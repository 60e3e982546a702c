/* load: clients that send what a pattern says.
 *
 * A client has connections, a connection has lanes, a lane has one operation at a time.  In a
 * closed loop a lane begins the next operation when it is done with one (and has thought); in
 * an open loop operations are due at times that nobody but the clock decides, and the next free
 * lane takes the oldest that is due.
 *
 *      CONNECTING --all ready--> WARMING --warmup--> RUNNING --time or number--> DRAINING
 *      --no operation left--> FLUSHING --all answered--> ENDED
 *
 * The server's death or the user's signal leads to ENDED from everywhere.
 */
#ifndef NBDLOAD_LOAD_H
#define NBDLOAD_LOAD_H

#include "choice.h"
#include "connection.h"
#include "measure.h"
#include "options.h"
#include "timers.h"

enum load_phase {
    LOAD_CONNECTING,
    LOAD_WARMING,
    LOAD_RUNNING,
    LOAD_DRAINING,
    LOAD_FLUSHING,
    LOAD_ENDED,
};

struct export
{
    const char *uri;
    uint64_t size;
    uint64_t start, end; /* the range in use */
    unsigned clients;
};

struct client {
    struct export *export;
    unsigned number;
    uint64_t begun;                           /* operations */
    uint64_t done;                            /* since the measurement's start */
    uint64_t unflushed;                       /* writes since its last flush was sent */
    uint64_t part_start, part_end, part_next; /* seq: its part of the export */
};

struct lane {
    struct load *load;
    struct client *client;
    struct connection *connection;
    struct request request;
    struct timer timer;
    struct random random;
    uint64_t due_ns; /* its operation's beginning */
    uint64_t bytes;  /* of its operation */
    void *buffer;
    bool resting; /* will not begin another operation */
};

struct load {
    const struct options *options;
    struct ev_loop *loop;
    struct connections connections;
    struct timers timers;

    enum load_phase phase;
    struct export *exports;
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
    int signal;     /* that ended it; 0: none */
    char gone[512]; /* why it could not go on; empty: it could */
};

/* -1: it could not begin, for a reason that was reported. */
int load_init(struct load *load, const struct options *options);

/* Returns when it has ended. */
void load_run(struct load *load);

void load_destroy(struct load *load);

/* Of the load as a whole, from what happened. */
int load_exit_code(const struct load *load);

#endif
