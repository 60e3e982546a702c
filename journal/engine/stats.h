/* stats: what the engine has done, in numbers, for people.  No decision looks at them.
 *
 * Counting costs next to nothing, so it is always on: a request is counted once, where it was
 * answered, in the counters of its client, by relaxed atomics and without the lock (nobody
 * concludes anything from two of them).  A disk's numbers are the sums of its clients', with what
 * those counted who are gone.  What is counted under the engine's lock anyway is a plain number.
 *
 * How long a flush waited for its commit takes no look at the clock: it begins when the flush
 * arrived at the commit (batch.h is told that time anyway) and ends when the commit did, which its
 * leader notes once for all whom it answers.
 *
 * A client is counted while it has a connection.  All numbers begin with the engine.
 */
#ifndef JOURNAL_ENGINE_STATS_H
#define JOURNAL_ENGINE_STATS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "batch.h"
#include "core.h"
#include "histogram.h"

struct engine;
struct engine_disk;
struct engine_client;

enum stats_kind { STATS_READ, STATS_WRITE, STATS_FLUSH, STATS_TRIM, STATS_ZERO, STATS_KINDS };

/* Durations, in the buckets of histogram.h, 16 of them in one: each is kept to better than 13
 * percent, in 2 KiB. */
#define STATS_BUCKET_WIDTH 16u
#define STATS_BUCKETS (HISTOGRAM_BUCKETS / STATS_BUCKET_WIDTH)
_Static_assert(HISTOGRAM_BUCKETS % STATS_BUCKET_WIDTH == 0, "whole buckets");
struct stats_times {
    uint64_t sum_ns;
    uint64_t buckets[STATS_BUCKETS];
};

uint64_t stats_times_count(const struct stats_times *t);
uint64_t stats_times_top(unsigned bucket); /* the largest value that is counted there */
uint64_t stats_times_quantile(const struct stats_times *t, double quantile);

struct stats_requests {
    uint64_t count[STATS_KINDS];
    uint64_t bytes[STATS_KINDS];
    uint64_t fua;    /* changes with that flag */
    uint64_t errors; /* of any kind; they are in count, too */
    /* Changes that had to wait for space in the journal, and for how long. */
    uint64_t throttled, throttled_ns;
    /* Flushes and FUA changes that waited for a commit, until it had ended. */
    struct stats_times commit_ns;
    uint64_t held, held_ns; /* of these: led a commit that was held back for company */
    uint64_t company;       /* of these: came while one was held back */
};

/* Commits that answered at least one of them. */
struct stats_commits {
    uint64_t count;
    uint64_t last_ns; /* when the last of these ended: tells one from the next */
};

static inline uint64_t stats_commits_count(const struct stats_commits *c)
{
    return __atomic_load_n(&c->count, __ATOMIC_RELAXED);
}

#define STATS_LABEL_BYTES 64

struct stats_client {
    LIST_ENTRY(stats_client) link; /* [engine->lock] of its disk */
    struct engine_disk *disk;
    uint64_t client;
    unsigned connections; /* [engine->lock] */
    char label[STATS_LABEL_BYTES];
    struct stats_requests requests; /* atomic */
    struct stats_commits commits;   /* atomic */
};

/* ---- counting ---- */

/* A connection begins, with an open disk: who->stats is what its requests are counted in from now
 * on, together with those of its client's other connections to this disk.  `label` says to people
 * who it is.  engine_disconnect ends it.  0 or -ENOMEM. */
int stats_connect(struct engine_disk *d, const char *label, struct engine_client *who);

static inline void stats_add(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* A request was answered.  client: NULL is nobody.  Returns `result`. */
static inline int stats_count(struct stats_client *client, enum stats_kind kind, uint32_t bytes,
                              bool fua, int result)
{
    struct stats_requests *r;

    if (client == NULL)
        return result;
    r = &client->requests;
    stats_add(&r->count[kind], 1);
    if (bytes != 0)
        stats_add(&r->bytes[kind], bytes);
    if (fua)
        stats_add(&r->fua, 1);
    if (result < 0)
        stats_add(&r->errors, 1);
    return result;
}

/* ---- what the engine counts for itself: [engine->lock] ---- */

/* When the records at some places of the ring were admitted: tells the age of the oldest one. */
#define STATS_MARKS 64
struct stats_mark {
    uint64_t position;
    int64_t ns; /* of clock_now_ns; negative: before the machine started */
};

struct stats {
    uint64_t begun_ns;
    struct stats_requests gone; /* of disks that were closed */
    uint64_t commits_failed;
    struct histogram
        commit_ns; /* of those that succeeded, from the seal to the barrier's end */
    uint64_t throttled, throttled_ns;
    uint64_t checkpoints_failed;
    /* Parts of large writes that went straight to an image, and barriers of images. */
    uint64_t bypassed, bypassed_bytes, image_barriers;
    struct stats_mark marks[STATS_MARKS]; /* oldest first */
    unsigned mark_count;
    uint64_t mark_position, mark_ns; /* the next one is due from here, or from then, on */
};

/* ---- looking ---- */

/* Lists are cut off there: bounds an answer. */
#define SNAPSHOT_DISKS_MAX 1000u
#define SNAPSHOT_CLIENTS_MAX 1000u

struct snapshot_disk {
    char *name, *path;
    uint64_t size; /* 0: not open */
    unsigned connections;
    bool is_open, is_writable;
    int error;    /* -errno: its image can't be written now */
    bool is_lost; /* a barrier failed: it is given up until the next start (P4) */
    uint64_t dirty_bytes;
    uint64_t oldest_age_ns; /* nothing of it waits for longer */
    uint64_t home_bytes;    /* that checkpoints wrote */
    uint64_t commits;
    struct stats_requests requests;
};

struct snapshot_client {
    unsigned disk; /* index */
    unsigned connections;
    char label[STATS_LABEL_BYTES];
    uint64_t commits;
    struct stats_requests requests;
};

enum snapshot_life { SNAPSHOT_IDLE, SNAPSHOT_ACTIVE, SNAPSHOT_STOPPING };

struct snapshot {
    char *journal_path; /* NULL: none */
    uint8_t journal_uuid[FORMAT_UUID_BYTES];
    enum snapshot_life life;
    bool is_read_only, is_staged, is_checkpointing;
    uint64_t uptime_ns;
    struct core_stats core;
    struct batch_stats batch;
    uint64_t commits_failed, checkpoints_failed;
    uint64_t bypassed, bypassed_bytes, image_barriers;
    struct histogram commit_ns;
    uint64_t throttled, throttled_ns;
    unsigned waiting; /* changes that wait for space now */
    uint64_t dirty_bytes;
    uint64_t oldest_age_ns; /* of what is not home yet; 0: nothing */
    struct stats_requests requests;
    struct snapshot_disk *disks;
    unsigned disk_count, disks_left_out;
    struct snapshot_client *clients;
    unsigned client_count, clients_left_out;
};

/* Everything at one moment.  0 or -ENOMEM; snapshot_free is due whatever is returned. */
int engine_snapshot(struct engine *e, struct snapshot *s);
void snapshot_free(struct snapshot *s);

#endif
