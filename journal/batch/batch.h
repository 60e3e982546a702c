/* batch: how long a commit waits for company.
 *
 * One commit can answer many flushes, and what it costs hardly depends on how many.  A flush
 * that comes while a commit is in flight joins the next one by itself.  The question left is
 * what to do when the device is free and somebody waits: begin, or hold the commit back a
 * little, because others will be here soon?  docs/batching.md has the motive and the figures.
 *
 * This module only answers that question.  It has no clock, no lock, does no I/O, and allocates
 * nothing after batch_create.  Its owner serialises the calls, passes the time (of one
 * monotonic clock, in ns; going back is survived), and does the waiting.  Nothing that it
 * answers is needed for correctness: any answer at any time keeps every promise.
 *
 * Life of a flush (or of a FUA write, from the moment when it needs a commit):
 *
 *   arrive -> pending -> [commit_begin] in flight -> [commit_end] answered -> ... arrive
 *                                                    \___ return delay ___/
 *
 * A commit takes all that is pending.  How an engine whose waiters lead commits themselves uses
 * it, with its mutex held:
 *
 *   wake = batch_arrive(b, client, connection, now);     once for each flush
 *   if (wake) signal the gathering leader;
 *   ...
 *   no commit in flight and nobody gathers: this one leads:
 *       gathering = true
 *       while (batch_consult(b, now, &until) == BATCH_WAIT)
 *           sleep on the leader's condition, at most until `until`
 *       gathering = false
 *       batch_commit_begin(b, now); the commit; batch_commit_end(b, now, bytes, error)
 *
 * A commit that nobody waits for (interval, checkpoint, stop) doesn't consult, but is begun and
 * ended like any other: it takes those along who are pending.
 *
 * Policies
 *   none   never wait
 *   jbd    2006: a fixed tick, except for the client that came last, when it is alone
 *   jbd2   2008: the average commit time, with the same exception
 *   rally  (default) as long as the measured return delays of those who were just answered
 *          promise more than it costs those who wait
 */
#ifndef JOURNAL_BATCH_H
#define JOURNAL_BATCH_H

#include <stdbool.h>
#include <stdint.h>

struct batch;

#define BATCH_POLICY_DEFAULT "rally"
#define BATCH_MIN_US_DEFAULT 0
#define BATCH_MAX_US_DEFAULT 15000 /* ext4's */
#define BATCH_TICK_US_DEFAULT 4000 /* a jiffy at HZ=250, what distributions shipped then */
#define BATCH_CONNECTIONS_DEFAULT 1024
#define BATCH_CONNECTIONS_MAX 65536

struct batch_config {
    const char *policy; /* NULL: the default */
    /* A commit that is held back for company is so for at least and at most this time, counted
     * from when it could have begun.  max 0: never.  min is not for `none`, and never makes a
     * client wait that is alone. */
    uint64_t min_us, max_us;
    uint64_t tick_us; /* of policy jbd */
    /* Connections that are remembered; of more, those that were silent longest are forgotten
     * (they are served all the same, but nobody is held back for them).  0: the default. */
    uint32_t connections;
};

#define BATCH_CONFIG_DEFAULT                                              \
    {                                                                     \
        .policy = BATCH_POLICY_DEFAULT, .min_us = BATCH_MIN_US_DEFAULT,   \
        .max_us = BATCH_MAX_US_DEFAULT, .tick_us = BATCH_TICK_US_DEFAULT, \
        .connections = BATCH_CONNECTIONS_DEFAULT                          \
    }

/* The name of the i-th policy, NULL behind the last: for usage texts. */
const char *batch_policy_name(unsigned i);

/* 0, -EINVAL (no such policy, min above max, times beyond an hour, too many connections) or
 * -ENOMEM. */
int batch_create(struct batch **out, const struct batch_config *config);
void batch_destroy(struct batch *b);

enum batch_answer { BATCH_GO, BATCH_WAIT };

/* A flush needs a commit that has not begun yet.  `client` is who it is (the peer),
 * `connection`
 * the way it came; any numbers.  True: a commit is held back and its leader must look again
 * (batch_consult): it may begin, or is to wake earlier than it was told. */
bool batch_arrive(struct batch *b, uint64_t client, uint64_t connection, uint64_t now_ns);

/* The same for a flush that the commit in flight will answer. */
void batch_arrive_covered(struct batch *b, uint64_t client, uint64_t connection,
                          uint64_t now_ns);

/* May the commit begin?  None is in flight.  BATCH_WAIT: not before *until_ns (> now_ns), then
 * ask again.  After BATCH_GO the answer stays so until batch_commit_begin. */
enum batch_answer batch_consult(struct batch *b, uint64_t now_ns, uint64_t *until_ns);

/* One commit is in flight at a time.  `bytes` is what it had to write.  After an error nothing
 * is learned. */
void batch_commit_begin(struct batch *b, uint64_t now_ns);
void batch_commit_end(struct batch *b, uint64_t now_ns, uint64_t bytes, int error);

/* The connection is gone: nobody is held back for it any more.  True: like batch_arrive's. */
bool batch_disconnect(struct batch *b, uint64_t connection, uint64_t now_ns);

struct batch_stats {
    const char *policy;
    uint64_t flushes;   /* that arrived */
    uint64_t commits;   /* that ended well and answered somebody */
    uint64_t waits;     /* commits that were held back */
    uint64_t waits_ns;  /* for how long, in all */
    uint64_t company;   /* flushes that came meanwhile */
    uint64_t forgotten; /* connections that lost their place to another one */
    /* Estimates, 0: none yet */
    uint64_t commit_ns; /* duration of a commit */
    uint64_t fixed_ns;  /* the part that doesn't depend on its bytes: what a joiner saves */
    uint64_t held_ns;   /* how long a commit is held back, usually */
    uint64_t idle_ns;   /* between two commits */
    uint64_t wake_ns;   /* by how much a leader wakes up late */
    uint64_t return_ns; /* median return delay */
};

void batch_stats(const struct batch *b, struct batch_stats *stats);

#endif
