/* lane: one operation at a time.
 *
 * A client has connections, a connection has lanes.  When a lane begins: pace.h.
 */
#ifndef NBDLOAD_LANE_H
#define NBDLOAD_LANE_H

#include "choice.h"
#include "connection.h"
#include "ledger.h"
#include "timers.h"

struct load;

struct target {
    const char *uri;
    uint64_t size;
    uint64_t start, end; /* the range in use */
    unsigned clients, connections;
    struct ledger_disk *disk; /* null: not verified */
};

struct client {
    struct target *target;
    unsigned number;
    uint64_t begun;     /* operations */
    uint64_t done;      /* since the measurement's start */
    uint64_t unflushed; /* writes since its last flush was sent */
    struct lane *lanes;
    unsigned lane_count;
    size_t record;                            /* trace: the next one */
    uint64_t part_start, part_end, part_next; /* seq: its part of the export */
};

struct lane {
    struct load *load;
    struct client *client;
    struct connection *connection;
    uint32_t number;
    struct request request;
    struct timer timer;
    struct random random;
    uint64_t due_ns; /* its operation's beginning */
    uint64_t bytes;  /* of its operation */
    void *buffer;    /* what is read, and what is written if it is verified */
    bool resting;    /* will not begin another operation */
    bool idle;       /* trace: waits for a request to send */
    size_t record;   /* trace: what it sent */

    /* Of a request in flight that is verified. */
    bool accounted; /* the ledger knows of it */
    uint64_t sequence;
    uint64_t *floors;
    struct ledger_flush flush;
};

static inline struct lane *lane_of_request(struct request *request)
{
    return (struct lane *)((char *)request - offsetof(struct lane, request));
}

static inline struct lane *lane_of_timer(struct timer *timer)
{
    return (struct lane *)((char *)timer - offsetof(struct lane, timer));
}

/* Its timer has expired. */
void lane_begin(struct lane *lane);

/* What was sent is finished: tells the ledger.  False, with a text: what was read is wrong. */
bool lane_account(struct lane *lane, char *text, size_t size);

/* Sends what else belongs to the operation; false: it was the last request. */
bool lane_continue(struct lane *lane);

/* Sends the request whose place (and flags) are set; `data` is what a write writes, null:
 * anything. */
void lane_send_as(struct lane *lane, enum request_kind kind, const void *data);

void lane_send_flush(struct lane *lane);
void lane_rest(struct lane *lane);

#endif
