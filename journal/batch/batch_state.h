/* batch_state: inside of batch.  For batch*.c only. */
#ifndef JOURNAL_BATCH_STATE_H
#define JOURNAL_BATCH_STATE_H

#include <sys/queue.h>

#include "batch.h"

/* ---- policy rally ---- */

/* Return delays: 4 linear steps per octave from 2^10 ns on; bucket b ends at
 * (1 + b % 4 / 4) * 2^(10 + b / 4), the last one has no end.  2 steps lose 3% of the worst
 * case, 8 gain 1%. */
#define RETURN_BUCKETS 96

/* Those who were answered by one commit and have not come back yet.  The last two commits are
 * looked at: with one, clients that just missed a commit never rejoin the others. */
#define COHORTS 2
struct cohort {
    uint64_t id; /* 0: none */
    uint64_t end_ns;
    uint32_t outstanding;
};

struct rally {
    double delays[RETURN_BUCKETS];
    double delay_count;               /* sum of delays[] */
    double below[RETURN_BUCKETS + 1]; /* sums of delays[0 .. i-1], as of the last commit */
    struct cohort cohorts[COHORTS];   /* oldest first */
    uint64_t cohort_last;
    /* Averages, in ns; the last two are of what is between commits. */
    double commit_ns, fixed_ns, held_ns, idle_ns;
    /* Regression of the duration over the bytes, from differences of neighbours. */
    double bytes_mean, bytes_before, duration_before, sum_xx, sum_xy;
    /* A plan holds until its time, or until much more company came than it counted on. */
    uint64_t plan_until_ns; /* 0: none */
    uint32_t plan_pending;
};

/* ---- policies jbd and jbd2 ---- */

struct jbd {
    bool client_known;
    uint64_t client_last;     /* whose flush came last */
    double average_ns;        /* duration of a commit */
    uint64_t gather_begun_ns; /* arrival of the first that is pending */
    /* Each flush sleeps on its own.  The first to wake closes the transaction and waits for
     * those who are asleep in it. */
    uint64_t ready_first_ns, ready_last_ns;
    bool closed;
    uint64_t closed_ready_ns; /* ready_last_ns when it was closed */
};

/* ---- connections ---- */

/* A run of answers that have not been followed by a flush yet. */
struct answers {
    uint64_t end_ns;
    uint64_t cohort;
    uint32_t count;
};

/* More runs than this only exist when as many flushes of one connection are answered by as many
 * commits; the oldest run is then given up. */
#define ANSWER_RUNS 16

struct connection {
    uint64_t key;
    LIST_ENTRY(connection) chain;     /* in its bucket */
    TAILQ_ENTRY(connection) silent;   /* when it neither has pending flushes nor in flight */
    SLIST_ENTRY(connection) pending;  /* when pending_count > 0 */
    SLIST_ENTRY(connection) inflight; /* when inflight_count > 0 */
    uint32_t pending_count, inflight_count;
    bool gone; /* not in a bucket, no answers; freed when it is silent */
    uint8_t run_first, run_count;
    struct answers runs[ANSWER_RUNS]; /* a ring, oldest first */
};

LIST_HEAD(connection_list, connection);
TAILQ_HEAD(connection_queue, connection);
SLIST_HEAD(connection_stack, connection);

/* ---- all ---- */

struct policy {
    const char *name;
    /* company: others are pending or in flight */
    void (*arrive)(struct batch *b, uint64_t client, bool company);
    enum batch_answer (*consult)(struct batch *b, uint64_t *until_ns);
    void (*begin)(struct batch *b);
    /* answering: flushes of known connections.  Returns what these remember as their cohort,
     * 0: nothing. */
    uint64_t (*end)(struct batch *b, uint64_t duration_ns, uint64_t bytes, uint32_t answering);
    void (*stats)(const struct batch *b, struct batch_stats *stats);
};

struct batch {
    const struct policy *policy;
    uint64_t min_ns, max_ns, tick_ns;

    /* Time never goes back in here: now_ns = the caller's + skew_ns. */
    uint64_t now_ns, skew_ns;

    uint32_t pending_count, inflight_count; /* flushes */
    uint64_t pending_since_ns;              /* arrival of the oldest one */
    bool inflight;                          /* a commit is */
    uint64_t begin_ns;
    bool ended; /* there was a commit, it ended at: */
    uint64_t end_ns;

    /* A sleeping leader should notice at wakes_ns (0: none does) and does so late, by an average
     * of wake_ns: condition variables and schedulers take their time. */
    uint64_t wakes_ns;
    double wake_ns;

    bool go;      /* said so */
    bool holding; /* said BATCH_WAIT for the commit to come: */
    uint64_t holding_since_ns, holding_until_ns;
    uint32_t holding_count; /* pending then */

    struct rally rally;
    struct jbd jbd;

    uint32_t connection_count, connections_used;
    uint32_t bucket_mask;
    struct connection *connections;  /* all; [0 .. used) were in use at some time */
    struct connection_list *buckets; /* by key */
    struct connection_list free;
    struct connection_queue silent; /* silent longest first */
    struct connection_stack pending, answering;

    struct batch_stats counters;
};

/* When the commit to come could have begun. */
static inline uint64_t batch_ready_ns(const struct batch *b)
{
    return b->ended && b->end_ns > b->pending_since_ns ? b->end_ns : b->pending_since_ns;
}

extern const struct policy policy_none, policy_jbd, policy_jbd2, policy_rally;

/* batch_connection.c */
int batch_connections_create(struct batch *b, uint32_t count);
void batch_connections_destroy(struct batch *b);
/* Finds it, or gives it a place: that of the one that is silent longest.  NULL: all are busy.
 */
struct connection *batch_connection_get(struct batch *b, uint64_t key);
void batch_connection_arrived(struct batch *b, struct connection *c, bool covered);
void batch_connection_drop(struct batch *b, uint64_t key);
void batch_connections_begin(struct batch *b); /* what is pending is in flight now */
/* What is in flight is answered, at now_ns.  cohort 0: nobody remembers. */
void batch_connections_end(struct batch *b, uint64_t cohort);
uint32_t batch_connections_answering(const struct batch *b); /* flushes of known connections */

/* batch_rally.c */
void rally_returned(struct batch *b, const struct answers *answers);
void rally_lost(struct batch *b, const struct answers *answers);

#endif
