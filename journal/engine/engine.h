/* engine: threads, locks, clock and libev loop around the core; executes its plans on storages.
 *
 * Lock ranking: there is one lock, engine->lock (a mutex).  It protects the core and every
 * field of the engine that says so.  It is never held over I/O, over a copy of payload, or
 * while another lock is taken.
 *
 * Conditions (all with engine->lock):
 *   published   the published lsn moved: those who were admitted earlier and copied later (P0)
 *   durable     a commit ended: followers look at the durable lsn and one of them may lead
 *   space       ring space was freed, or waiting makes no sense any more
 *   work        the writeback thread has something to do
 *   disks_free  nobody attaches or detaches a disk (serve_disk.c)
 *   super_free  no superblock is being written
 *   claims_free, image_flushed   a range was given free, a barrier of an image ended (bypass.c)
 *
 * Threads: the caller's (nbdkit's) do admission, copying, commits (leader/follower: the
 * flushing thread itself leads, DESIGN 4) and reads; the writeback thread runs checkpoints and
 * prewrites the ring; the loop thread (libev, own loop, never the default one: DESIGN 5.19)
 * keeps time: commit interval, idle drain.
 */
#ifndef JOURNAL_ENGINE_H
#define JOURNAL_ENGINE_H

#include <limits.h>

#include "attach.h"
#include "batch.h"
#include "core.h"

struct engine;
struct engine_disk; /* one of its images */
struct ev_loop;
struct stats_client;

enum engine_recover {
    /* yes, unless answered writes may be lost: then a person must say yes */
    ENGINE_RECOVER_DEFAULT,
    ENGINE_RECOVER_YES,
    ENGINE_RECOVER_NO,
    ENGINE_RECOVER_ONLY_CHECK,
};

struct engine_config {
    const char *image_path;   /* one image, or */
    const char *dir_path;     /* all of a folder */
    const char *journal_path; /* NULL: image_path + ".journal", dir_path + "/.journal" */
    uint64_t journal_size;    /* for a missing journal; 0: default */
    enum engine_recover recover;
    uint64_t bypass_bytes;     /* writes from here on may go straight to the image; 0: none */
    double commit_interval_s;  /* > 0 */
    size_t memory_bytes;       /* bound of the map */
    struct batch_config batch; /* how long a commit waits for company */
    bool trace_commits;        /* a report_debug line for each commit */
    /* Called by engine_start before the loop's thread begins, to add watchers of the caller's:
     * they are served by that thread until engine_stop has ended.  NULL: none. */
    void (*loop_begin)(void *opaque, struct ev_loop *loop);
    void *loop_opaque;
};

/* Opens, locks, creates a missing journal (never for an image that is marked for another one),
 * compares identities, recovers. For nbdkit's get_ready: no threads yet, and nothing but a
 * missing journal is written. Reports its errors. 0; -ECANCELED for ONLY_CHECK when all is
 * well (reported what was found); other -errno. */
int engine_open(struct engine **out, const struct engine_config *config);

/* The same with storages that the caller opened (tests: simulated or failing disks). Takes
 * them over. */
int engine_open_storages(struct engine **out, const struct engine_config *config,
                         struct storage *journal, struct storage *image);

/* Starts the threads (nbdkit's after_fork). */
int engine_start(struct engine *e);

/* A client comes (nbdkit's open).  The disk of this name: file= has one, by any name; dir= has
 * one for each image in the folder, and "" is the only one.  Not readonly (and if the disk can be
 * written): it may be changed from now on: barrier, mark on the image, superblock with the new
 * epoch or the image's entry, EPOCH record.  Cheap when already done.  Thread-safe.  Reported;
 * -errno. */
int engine_disk_open(struct engine *e, const char *name, bool readonly,
                     struct engine_disk **out);
void engine_disk_close(struct engine_disk *d); /* once for each engine_disk_open */

uint64_t engine_disk_size(const struct engine_disk *d);
bool engine_disk_read_only(const struct engine_disk *d);
bool engine_disk_is_rotational(const struct engine_disk *d);

/* dir=: calls `visit` for each image in the folder, in the order of names, until it returns
 * < 0.  0 or -errno. */
int engine_visit_images(struct engine *e,
                        int (*visit)(void *opaque, const char *name, uint64_t bytes),
                        void *opaque);
/* The name that a client gets who says none.  False: it has to (dir= with more than one image). */
bool engine_sole_name(struct engine *e, char name[NAME_MAX + 1]);

uint32_t engine_atomic_max(const struct engine *e);

/* Who asks.  Steers how long a commit waits for company and nothing else: safety never depends
 * on it.  Any numbers: `client` is the same for all connections of a peer (DESIGN 2),
 * `connection` is not. */
struct engine_client {
    uint64_t client, connection;
    struct stats_client *stats; /* stats_connect; NULL: not counted */
};
/* The connection is gone: no commit waits for it any more, and *who is not used any more. */
void engine_disconnect(struct engine *e, const struct engine_client *who);

/* Requests.  Any thread.  0 or -errno (EIO, ENOSPC, EINVAL, EROFS, ENOMEM).  Ranges must be
 * inside the image. */
int engine_read(struct engine_disk *d, void *buf, uint32_t count, uint64_t offset);
int engine_write(struct engine_disk *d, const void *buf, uint32_t count, uint64_t offset,
                 bool fua, const struct engine_client *who);
int engine_zero(struct engine_disk *d, uint32_t count, uint64_t offset, bool may_trim, bool fua,
                const struct engine_client *who);
int engine_trim(struct engine_disk *d, uint32_t count, uint64_t offset, bool fua,
                const struct engine_client *who);
int engine_flush(struct engine_disk *d, const struct engine_client *who);
int engine_cache(struct engine_disk *d, uint32_t count, uint64_t offset);

enum engine_extent { ENGINE_DATA, ENGINE_HOLE_ZERO, ENGINE_ZERO };
/* Calls `add` for consecutive merged extents covering [offset, offset+count) (it may stop
 * early by returning 1; <0 is an error). */
int engine_extents(struct engine_disk *d, uint32_t count, uint64_t offset,
                   int (*add)(void *opaque, uint64_t offset, uint64_t length,
                              enum engine_extent kind),
                   void *opaque);

/* Clean stop (nbdkit's cleanup): commit, checkpoint until drained or seconds_max passed, mark
 * removed.  Says what happened in one line (P5).
 * 0 drained, 1 data left in the journal (said), -errno. Without activation: nothing to do, 0.
 */
int engine_stop(struct engine *e, double seconds_max);
void engine_close(struct engine *e); /* frees; no request may be under way */

/* Numbers for tests and tools. */
void engine_stats_get(struct engine *e, struct core_stats *stats);

#endif
