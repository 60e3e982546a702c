/* engine_state: what the files of the engine share.  Nobody else includes it.
 *
 *   serve_open.c    open, recover; close                      one thread
 *   serve_client.c  a client opens and closes a disk          nbdkit's threads
 *   serve_disk.c    a disk: attach, compare, detach           ", writeback
 *   serve_start.c   threads, first writable client            nbdkit's threads
 *   change.c        write, zero, trim: admit, copy, publish   "
 *   bypass.c        large writes; barriers of images          "
 *   commit_wait.c   flush: join a commit or lead one          ", loop, stop
 *   records.c       the journal's file: write, submit, sync   ", writeback
 *   announce.c      wakes who waits for what has changed      all
 *   serve_read.c    read, extents, cache                      "
 *   writeback.c     checkpoints, the ring's first lap         writeback thread, stop
 *   due.c           commit interval, idle drain               loop thread
 *   loop.c          libev's loop, and its timer               "; armed by all
 *   serve_stop.c    the clean stop                            nbdkit's main thread
 *   stats.c         counting                                  any
 *   snapshot.c      all numbers at one moment                 loop
 *
 * The lock and the conditions are described in engine.h; GUARDED fields need the lock.
 */
#ifndef JOURNAL_ENGINE_STATE_H
#define JOURNAL_ENGINE_STATE_H

#include <pthread.h>
#include <sys/queue.h>

#include "batch.h"
#include "core.h"
#include "engine.h"
#include "folder.h"
#include "lock.h"
#include "stats.h"

/* Without a request for this long, what waits in the journal goes home to the image.  Long
 * enough that a pause between two bursts of a client is not taken for idleness. */
#ifndef ENGINE_IDLE_NS
#define ENGINE_IDLE_NS UINT64_C(3000000000)
#endif
/* After the image failed: often enough to resume soon when it heals, rare enough not to load a
 * failing disk. */
#define ENGINE_RETRY_NS UINT64_C(1000000000)

enum engine_life {
    ENGINE_INERT,      /* opened: reads only */
    ENGINE_ACTIVATING, /* a thread is making it writable */
    ENGINE_ACTIVE,
    ENGINE_STOPPING, /* nothing is admitted any more */
};

/* A change that waits for space in the ring (change.c). */
struct admission {
    TAILQ_ENTRY(admission) link;
    struct condition turn;
    uint64_t client, due;
};

/* An image, while its file is open; or one that the checkpoint looks for in vain. */
struct engine_disk {
    LIST_ENTRY(engine_disk) link;
    struct engine *engine;
    char *name;  /* as export; GUARDED */
    char *label; /* path, for messages */
    /* Constant while somebody uses it or a checkpoint runs. */
    struct storage *storage; /* NULL: not open */
    struct core_image *image;
    uint64_t inode;         /* of storage */
    uint64_t refused_inode; /* of a file that is not the one that the checkpoint looks for */
    unsigned users GUARDED; /* connections */
    uint64_t used_ns GUARDED;
    bool writable GUARDED;       /* marked, and its entry is durable: changes may be admitted */
    int writeback_error GUARDED; /* reported and not yet healed */
    bool flushed GUARDED; /* the checkpoint's last step for it was a flush that succeeded */
    uint64_t piled_bytes GUARDED;          /* bypassing writes not submitted yet */
    uint64_t piled_from, piled_to GUARDED; /* where they are; with piled_bytes > 0 */
    bool flush_due GUARDED; /* it has bypassed data that is as old as the commit interval */
    LIST_HEAD(, stats_client) clients GUARDED;
    struct stats_requests gone GUARDED; /* counted by clients that are gone */
    struct stats_commits commits;       /* atomic */
    uint64_t dirty_ns GUARDED; /* since then something waits, if it does; 0: before this disk */
};

struct engine {
    /* Constant after engine_open, but for journal.storage, which activation replaces while no
     * request is under way (journal_changing). */
    struct engine_config config; /* without the paths */
    struct journal_file journal; /* storage NULL: a read-only image that has no journal */
    char *served;                /* for engine_served */
    struct folder *folder;       /* dir=; NULL: one image, which stays attached */
    uint64_t ring_start, ring_bytes;
    uint64_t seed;
    uint64_t
        start_position; /* where recovery cut, in whole sectors: the first record goes there */
    bool staging_found; /* a dead server's newest records are in memory only */
    bool read_only;
    /* Changed by activation, before the first change is admitted: whoever may write has been
     * through engine_activate, and its lock. */
    _Atomic uint32_t atomic_max;

    struct lock lock;
    struct condition published;
    struct event durable[2];          /* the end of commit number n: [n % 2] */
    _Atomic uint64_t durable_lsn;     /* all up to it is; behind the core's for a moment */
    _Atomic uint64_t commit_ended_ns; /* the commit that made it so */
    struct condition gather;          /* the leader that holds a commit back */
    struct condition work;
    struct condition readers;
    struct condition barrier_free;
    struct condition activated;
    struct condition disks_free;    /* nobody attaches or detaches */
    struct condition super_free;    /* no superblock is being written */
    struct condition claims_free;   /* a claim has ended */
    struct condition image_flushed; /* a barrier of an image has ended */

    struct core *core GUARDED;
    LIST_HEAD(, engine_disk) disks GUARDED; /* changed by who has taken them */
    pthread_t disks_owner GUARDED;          /* with disks_depth > 0 */
    unsigned disks_depth GUARDED;
    bool super_writing GUARDED; /* one that is no checkpoint's */
    enum engine_life life GUARDED;
    bool journal_changing GUARDED; /* activation replaces journal.storage: no new plans */
    unsigned plans GUARDED;        /* reads under way */
    bool epoch_superblock GUARDED; /* activation got as far as the new superblock */
    bool abort_reported GUARDED;

    /* What engine_announce_locked last told the sleepers. */
    uint64_t announced_published GUARDED;
    uint64_t announced_space GUARDED;
    bool announced_abort GUARDED;
    unsigned published_sleepers GUARDED;
    unsigned claim_sleepers GUARDED;
    uint64_t drained_times GUARDED;
    /* While all is in the images: how often that has come to pass.  Else 0: set by whoever
     * admits a change, before it can go anywhere.  Readers need no lock for it. */
    _Atomic uint64_t drained;

    TAILQ_HEAD(admission_queue, admission) admissions GUARDED; /* "space" */
    uint64_t admission_clock GUARDED;                          /* of the fair queue: bytes */

    struct stats stats GUARDED;

    struct batch *batch GUARDED;         /* how long a commit waits for company */
    bool gathering GUARDED;              /* its leader holds the next commit back */
    bool committing GUARDED;             /* a commit is in flight */
    uint64_t commit_number GUARDED;      /* of the commit that is in flight, or the last */
    uint64_t commit_target_lsn GUARDED;  /* what it covers */
    uint64_t committed_position GUARDED; /* end of the last one in the ring */
    bool recovered_durable GUARDED;      /* a barrier covered all that recovery found */
    uint64_t empty_flushes GUARDED;
    bool barrier_busy GUARDED; /* a barrier of the journal is under way */

    /* Time, for the loop. */
    uint64_t request_ns GUARDED;     /* last request */
    uint64_t uncommitted_ns GUARDED; /* oldest change in no commit yet; 0: none */
    uint64_t bypassed_ns GUARDED;    /* the same for bypassing writes and barriers of images */
    bool timer_armed GUARDED;
    bool drain GUARDED; /* idle: the writeback thread should checkpoint */

    /* The running checkpoint; owned by the thread that runs it. */
    struct checkpoint_step *step;
    uint8_t *copy_buffer;
    uint64_t loaded_from GUARDED, loaded_to GUARDED; /* of the ring, for the checkpoint */
    bool checkpoint_running GUARDED;
    uint64_t writeback_retry_ns GUARDED; /* not before, after an error, unless it */
    bool writeback_gains GUARDED;        /* moved the tail and others want it moved again */
    uint64_t prewrite_ns GUARDED;        /* next piece of the first lap not before */
    uint64_t stop_deadline_ns GUARDED;   /* STOPPING: leave what is left then */

    bool writeback_started, loop_started; /* by engine_start, its thread only */
    pthread_t writeback_thread, loop_thread;
    struct loop *loop;
};

static inline uint64_t engine_file_offset(const struct engine *e, uint64_t position)
{
    return e->ring_start + position % e->ring_bytes;
}

/* The only way from state to state.  serve_start.c */
void engine_move_locked(struct engine *e, enum engine_life from,
                        enum engine_life to) REQUIRES_LOCK;

/* What errors and lines of information call what is served: "image X", "the images in DIR". */
static inline const char *engine_served(const struct engine *e)
{
    return e->served;
}

/* ---- serve_disk.c ---- */

/* Attaching, marking and detaching is one thread's work at a time.  May be nested. */
void engine_disks_take_locked(struct engine *e) REQUIRES_LOCK;
void engine_disks_give_locked(struct engine *e) REQUIRES_LOCK;
/* In the list; NULL: no memory.  Freed by engine_close or when it is idle. */
struct engine_disk *engine_disk_new_locked(struct engine *e, const char *name,
                                           const char *label) REQUIRES_LOCK;
void engine_disk_free(struct engine_disk *d); /* of no list any more */
/* Compares, and makes it known to the core.  On success the storage is the disk's.  Reported.
 * Drops the lock meanwhile. */
int engine_disk_attach_locked(struct engine *e, struct engine_disk *d,
                              struct storage *storage) REQUIRES_LOCK;
/* The disk of an image of the table, opened if need be.  -errno: its file can't be had; *out is
 * the disk even then, if there is memory.  -ENOENT is not reported.  Drops the lock meanwhile. */
int engine_disk_of_image_locked(struct engine *e, struct core_image *image,
                                struct engine_disk **out) REQUIRES_LOCK;
/* The open one of this name, or another of this name, or NULL. */
struct engine_disk *engine_disk_named_locked(struct engine *e, const char *name) REQUIRES_LOCK;
/* Nobody uses it and nothing waits for it: it may be detached. */
bool engine_disk_is_idle_locked(const struct engine_disk *d) REQUIRES_LOCK;
/* Closes and frees it.  Drops the lock meanwhile. */
void engine_disk_detach_locked(struct engine *e, struct engine_disk *d) REQUIRES_LOCK;
/* Closes idle ones that are too many.  Drops the lock meanwhile. */
void engine_disks_trim_locked(struct engine *e) REQUIRES_LOCK;
int engine_random_uuid(uint8_t uuid[FORMAT_UUID_BYTES]);

/* Before the first writable client of this disk; the first of all activates the engine.
 * serve_start.c */
int engine_disk_writable_locked(struct engine_disk *d) REQUIRES_LOCK;

/* Tells the sleepers what has changed in the core.  To be called after every call into the core
 * that publishes, frees space, or aborts.  announce.c */
void engine_announce_locked(struct engine *e) REQUIRES_LOCK;

/* P4: the journal can't be trusted any more: `what` ("flush", "write of 5 bytes at 8") failed.
 * Reported once.  announce.c */
void engine_abort_locked(struct engine *e, const char *what, int error) REQUIRES_LOCK;

/* 0, or why this disk can't be changed.  serve_disk.c */
int engine_may_change_locked(const struct engine_disk *d) REQUIRES_LOCK;

/* Claims a range and waits until that is granted.  Drops the lock meanwhile.  bypass.c */
void engine_claim_locked(struct engine *e, struct claim *claim, struct core_image *image,
                         uint64_t offset, uint64_t length) REQUIRES_LOCK;
void engine_claim_end_locked(struct engine *e, struct claim *claim) REQUIRES_LOCK;
/* How much of a write of `count` bytes may be tried as one bypassing write; 0: none. */
uint32_t engine_bypass_part(const struct engine *e, uint32_t count);
/* 0 done; 1: the journal has to take it; or -errno.  bypass.c */
int engine_bypass_write(struct engine_disk *d, const void *bytes, uint32_t count,
                        uint64_t offset) EXCLUDES_LOCK;
/* One barrier of an open image.  Drops the lock meanwhile.  bypass.c */
int engine_image_barrier_locked(struct engine_disk *d) REQUIRES_LOCK;
/* For the checkpoint: the same, or only waits until this range is written.  An error of the image's
 * writeback is told to who comes first, so that is as bad as a failed barrier. */
int engine_image_write_out(struct engine_disk *d, uint64_t offset, uint64_t length,
                           bool barrier) EXCLUDES_LOCK;
/* As if, for an image whose file is gone.  0. */
int engine_image_gone_locked(struct engine *e, struct core_image *image) REQUIRES_LOCK;
/* Until core_image_flush_target's `target` is reached; 0 or -EIO.  Drops the lock meanwhile. */
int engine_image_flush_locked(struct engine_disk *d, uint64_t target) REQUIRES_LOCK;
/* At the stop: says of which disks data is gone. */
bool engine_lost_report(struct engine *e) EXCLUDES_LOCK;
/* The commit interval is over for bypassed data: the writeback thread shall flush it. */
void engine_bypass_due_locked(struct engine *e) REQUIRES_LOCK;
/* It does one such flush.  False: none was due. */
bool engine_flush_due_locked(struct engine *e) REQUIRES_LOCK;

/* Writes a record that was admitted.  Without the lock.  records.c */
int engine_record_write(struct engine *e, const struct append *a, const void *payload);
/* After it: publishes it, and says why if it failed.  records.c */
void engine_record_copied_locked(struct engine *e, struct append *a, int error) REQUIRES_LOCK;

/* Sleeps until something was published, or a submission ended.  records.c */
void engine_await_published_locked(struct engine *e) REQUIRES_LOCK;
/* Carries out a submission that the core has planned.  Drops the lock meanwhile.
 * records.c */
int engine_submit_locked(struct engine *e, uint64_t from, uint64_t to) REQUIRES_LOCK;
/* Submits what has piled up, so that a flush finds little left.  True if there was any.
 * records.c */
bool engine_submit_all_locked(struct engine *e) REQUIRES_LOCK;
/* Returns when everything up to lsn is durable, or -EIO.  `who` waits (NULL: nobody who could
 * be company).  Called with the lock, returns without.  commit_wait.c */
int engine_commit_wait_release(struct engine *e, uint64_t lsn,
                               const struct engine_client *who) RELEASES_LOCK;
/* Leads a commit of all that is admitted, or waits for the end of the one in flight.
 * commit_wait.c */
int engine_commit_all_locked(struct engine *e) REQUIRES_LOCK;
/* Makes what recovery found durable, once.  Drops the lock meanwhile.  records.c */
int engine_settle_locked(struct engine *e) REQUIRES_LOCK;
/* One barrier of the journal; a failure aborts.  Drops the lock meanwhile.  records.c */
int engine_journal_barrier_locked(struct engine *e) REQUIRES_LOCK;

/* ---- stats.c ---- */

void stats_requests_add(struct stats_requests *sum, const struct stats_requests *from);
void stats_disconnect_locked(struct stats_client *c) REQUIRES_LOCK; /* NULL: nobody */
void stats_disk_closed_locked(struct engine_disk *d) REQUIRES_LOCK; /* clients are gone */
/* A change of this client waited so long for space. */
void stats_throttled_locked(struct engine *e, const struct engine_client *who,
                            uint64_t ns) REQUIRES_LOCK;
void stats_commit_locked(struct engine *e, uint64_t ns, int error) REQUIRES_LOCK;
/* Somebody's flush or change that arrived at a commit then is durable. */
void stats_durable(struct engine *e, const struct engine_client *who, uint64_t arrived_ns);
void stats_held_locked(const struct engine_client *who, uint64_t ns) REQUIRES_LOCK;
void stats_company_locked(const struct engine_client *who) REQUIRES_LOCK;
void stats_mark_locked(struct engine *e, uint64_t position) REQUIRES_LOCK;
/* A record of this disk was admitted at this place, at request_ns. */
static inline void stats_admitted_locked(struct engine *e, struct engine_disk *d,
                                         uint64_t position) REQUIRES_LOCK
{
    if (core_image_dirty_bytes(d->image) == 0)
        d->dirty_ns = e->request_ns;
    if (position >= e->stats.mark_position || e->request_ns >= e->stats.mark_ns)
        stats_mark_locked(e, position);
}
/* Recovery found changes, the first one of this time. */
void stats_recovered_locked(struct engine *e, uint64_t first_us) REQUIRES_LOCK;
uint64_t stats_oldest_age_locked(struct engine *e) REQUIRES_LOCK;
/* Nothing of the disk waits for longer than this.  oldest_age_ns is the journal's. */
uint64_t stats_disk_age_locked(const struct engine_disk *d,
                               uint64_t oldest_age_ns) REQUIRES_LOCK;

/* Notes a request. */
static inline void engine_touch_locked(struct engine *e) REQUIRES_LOCK
{
    e->request_ns = clock_now_ns();
}
/* After a change was admitted: sees to it that the loop commits and drains it in time. */
void engine_arm_locked(struct engine *e) REQUIRES_LOCK;
/* The loop shall look at what is due.  loop.c */
void engine_arm_timer_locked(struct engine *e) REQUIRES_LOCK;
/* Does what is due.  When to look again, 0: when somebody arms the timer.  due.c */
uint64_t engine_due_locked(struct engine *e) REQUIRES_LOCK;
/* Before the thread: nothing but memory.  `due` is called with the lock.  0 or -errno. */
int loop_create(struct engine *e, uint64_t (*due)(struct engine *e));
void loop_destroy(struct engine *e);
void *loop_main(void *engine);
/* Its libev loop, before the thread. */
struct ev_loop *loop_ev(struct engine *e);
/* Ends loop_main, from another thread. */
void loop_stop(struct engine *e);

/* Writes a superblock and makes it durable; core_super_end is left to the caller.  Drops the
 * lock meanwhile.  writeback.c */
int engine_super_write_locked(struct engine *e, const struct super_plan *plan) REQUIRES_LOCK;

/* Runs one checkpoint in the calling thread.  0, -EBUSY (another one is running), -ETIME (the
 * stop's time is over), or an error that was reported.  *drained (may be NULL): a CLEAN
 * superblock is durable. */
int writeback_checkpoint(struct engine *e, bool clean, bool *drained) EXCLUDES_LOCK;
void *writeback_main(void *engine);

/* Ends the threads, waiting for what they are doing.  serve_stop.c */
void engine_threads_end(struct engine *e);

#endif
