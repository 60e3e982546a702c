/* serve_start: from opened to writable: the threads, and the first writable client.
 *
 * Until a client that may write comes, nothing was modified (nbdkit -r shows itself only then).
 * Then, in this order, each step durable before the next:
 *
 *   1 what recovery found may be in memory only: it is settled on the disk (P0)
 *   2 the image's mark: from now on the image alone is not the whole truth.  It says that the
 *     new epoch is opening (attach.h, "Order")
 *   3 staging for the new epoch
 *   4 the superblock with the new epoch: no record of an earlier life is taken for ours
 *   5 the mark again: the epoch is open
 *   6 the EPOCH record; a ring that is too full for it is checkpointed first
 *
 * and only then the client's open is answered.  A disk that is opened for writing later joins the
 * epoch with 2, a superblock with its entry, and 5.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_state.h"
#include "report.h"
#include "staging.h"

void engine_move_locked(struct engine *e, enum engine_life from, enum engine_life to)
{
    assert(e->life == from);
    assert((from == ENGINE_INERT && to == ENGINE_ACTIVATING) ||
           (from == ENGINE_ACTIVATING && (to == ENGINE_ACTIVE || to == ENGINE_INERT)) ||
           ((from == ENGINE_INERT || from == ENGINE_ACTIVE) && to == ENGINE_STOPPING));
    e->life = to;
}

/* ---- threads ---- */

/* A signal is for the program's own threads: all are blocked in ours. */
static int thread_begin(pthread_t *thread, void *(*main)(void *), struct engine *e)
{
    sigset_t all, before;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(thread, NULL, main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

int engine_start(struct engine *e)
{
    int r;

    assert(!e->loop_started && !e->writeback_started);
    if (e->read_only && e->config.loop_begin == NULL)
        return 0; /* nothing to do for them */
    r = loop_create(e, engine_due_locked);
    if (r < 0)
        goto err;
    if (e->config.loop_begin != NULL)
        e->config.loop_begin(e->config.loop_opaque, loop_ev(e));
    r = thread_begin(&e->loop_thread, loop_main, e);
    if (r < 0)
        goto err;
    e->loop_started = true;
    if (e->read_only)
        return 0;
    r = thread_begin(&e->writeback_thread, writeback_main, e);
    if (r < 0)
        goto err;
    e->writeback_started = true;
    return 0;

err:
    report_error("can't start the threads of %s: %s", engine_served(e), report_reason(-r));
    return r; /* engine_close ends what was begun */
}

/* ---- activation ---- */

/* `opening`: before the superblock with the image's entry is durable, else after it. */
static int write_mark_locked(struct engine_disk *d, uint32_t epoch, bool opening,
                             bool *supported) REQUIRES_LOCK
{
    struct engine *e = d->engine;
    struct image_mark mark = {.present = true, .epoch = epoch, .is_opening = opening};
    char *path = realpath(e->journal.storage->name, NULL);
    int r;

    /* What a server that died wrote straight to it: the mark's fsync would be the one that is told of
     * a failed writeback, and the first flush would succeed (P4).  If it fails that is said, and the
     * disk is lost; it can be opened all the same. */
    if (core_image_flush_target(d->image) != 0)
        engine_image_flush_locked(d, core_image_flush_target(d->image));
    memcpy(mark.journal_uuid, e->journal.sb.uuid, FORMAT_UUID_BYTES);
    memcpy(mark.image_uuid, core_image_entry(d->image)->uuid, FORMAT_UUID_BYTES);
    snprintf(mark.journal_path, sizeof(mark.journal_path), "%s",
             path != NULL ? path : e->journal.storage->name);
    free(path);
    lock_release(&e->lock);
    r = image_mark_write(d->storage, &mark, supported);
    lock_acquire(&e->lock);
    return r;
}

/* The image's entry, now with the promise that its identity is checked as long as the ring may
 * hold data of it. */
static int enter_image_locked(struct engine_disk *d, uint32_t epoch, bool marked) REQUIRES_LOCK
{
    struct engine *e = d->engine;
    struct image_entry entry = *core_image_entry(d->image);
    struct core_image *image;
    int error = 0;

    entry.flags |= IMAGE_FLAG_PENDING;
    if (e->config.bypass_bytes != 0)
        entry.flags |= IMAGE_FLAG_BYPASS;
    entry.mark_epoch = epoch;
    if (marked)
        entry.flags |= IMAGE_FLAG_MARKED;
    else
        entry.flags &= ~IMAGE_FLAG_MARKED;
    image = core_image_add(e->core, &entry, &error);
    assert(image == d->image); /* it is in the table already */
    return image == NULL ? error : 0;
}

/* From here on the newest records are staged, if this machine and the journal can.  The
 * journal's storage is replaced: nobody may be at work on the old one. */
static int begin_staging_locked(struct engine *e, uint32_t epoch) REQUIRES_LOCK
{
    uint8_t boot[FORMAT_UUID_BYTES];
    uint64_t bytes;
    int r;

    e->journal_changing = true;
    while (e->plans > 0)
        condition_wait(&e->activated, &e->lock);
    lock_release(&e->lock);
    r = staging_begin(&e->journal.storage, &e->journal.sb, epoch, e->start_position, &bytes,
                      boot);
    lock_acquire(&e->lock);
    e->journal_changing = false;
    condition_broadcast(&e->activated);
    if (r < 0)
        return r;
    e->staging_found = false;
    e->committed_position = e->start_position; /* the first commit's bytes begin there */
    core_staging_set(e->core, bytes, boot, geteuid());
    e->atomic_max = core_atomic_max(e->core);
    return 0;
}

static int new_epoch_locked(struct engine *e) REQUIRES_LOCK
{
    struct super_plan plan;
    int r;

    r = core_activate(e->core, clock_wall_us(), &plan);
    if (r < 0)
        return r;
    r = engine_super_write_locked(e, &plan);
    core_super_end(e->core, &plan, r);
    engine_announce_locked(e);
    if (r == 0)
        e->epoch_superblock = true;
    return r;
}

static int epoch_record_locked(struct engine *e) REQUIRES_LOCK
{
    struct append a;
    int r = core_epoch_begin(e->core, &a, clock_wall_us());

    if (r == -EAGAIN) {
        lock_release(&e->lock);
        r = writeback_checkpoint(e, false, NULL);
        lock_acquire(&e->lock);
        if (r < 0)
            return r;
        r = core_epoch_begin(e->core, &a, clock_wall_us());
    }
    if (r < 0)
        return r;
    lock_release(&e->lock);
    r = engine_record_write(e, &a, NULL);
    lock_acquire(&e->lock);
    engine_record_copied_locked(e, &a, r);
    return r;
}

/* Steps 1 to 4. */
static int open_epoch_locked(struct engine_disk *d) REQUIRES_LOCK
{
    struct engine *e = d->engine;
    struct core_stats stats;
    bool marked;
    int r = engine_settle_locked(e);

    if (r < 0)
        return r;
    core_stats_get(e->core, &stats);
    r = write_mark_locked(d, stats.epoch + 1, true, &marked);
    if (r < 0)
        return r;
    r = enter_image_locked(d, stats.epoch + 1, marked);
    if (r < 0)
        return r;
    r = begin_staging_locked(e, stats.epoch + 1);
    return r < 0 ? r : new_epoch_locked(e);
}

/* An image joins the epoch that has begun. */
static int join_epoch_locked(struct engine_disk *d, uint32_t epoch) REQUIRES_LOCK
{
    struct engine *e = d->engine;
    struct super_plan plan;
    bool marked;
    int r = write_mark_locked(d, epoch, true, &marked);

    if (r == 0)
        r = enter_image_locked(d, epoch, marked);
    if (r < 0)
        return r;
    while ((r = core_super_begin(e->core, clock_wall_us(), &plan)) == -EBUSY)
        condition_wait(&e->super_free, &e->lock);
    if (r < 0)
        return r;
    e->super_writing = true;
    r = engine_super_write_locked(e, &plan);
    core_super_end(e->core, &plan, r);
    e->super_writing = false;
    condition_broadcast(&e->super_free);
    engine_announce_locked(e);
    return r;
}

/* Its entry is durable in the superblock, and its mark is of this epoch and complete. */
static int join_locked(struct engine_disk *d) REQUIRES_LOCK
{
    const struct image_entry *entry = core_image_entry(d->image);
    struct core_stats stats;
    bool marked;
    int r = 0;

    core_stats_get(d->engine->core, &stats);
    if (!(entry->flags & IMAGE_FLAG_PENDING) || entry->mark_epoch != stats.epoch)
        r = join_epoch_locked(d, stats.epoch);
    return r < 0 ? r : write_mark_locked(d, stats.epoch, false, &marked);
}

static int activate_locked(struct engine_disk *d) REQUIRES_LOCK
{
    struct engine *e = d->engine;
    int r = 0;

    if (!e->epoch_superblock) /* else an earlier attempt came so far, maybe with another disk */
        r = open_epoch_locked(d);
    if (r == 0)
        r = join_locked(d);
    return r < 0 ? r : epoch_record_locked(e);
}

static int activate_engine_locked(struct engine_disk *d) REQUIRES_LOCK
{
    struct engine *e = d->engine;
    int r;

    engine_move_locked(e, ENGINE_INERT, ENGINE_ACTIVATING);
    r = activate_locked(d);
    engine_move_locked(e, ENGINE_ACTIVATING, r == 0 ? ENGINE_ACTIVE : ENGINE_INERT);
    if (r == 0) {
        engine_touch_locked(e);
        engine_arm_locked(e);
        condition_signal(&e->work);
    }
    condition_broadcast(&e->activated);
    return r;
}

int engine_disk_writable_locked(struct engine_disk *d)
{
    struct engine *e = d->engine;
    int r;

    assert(e->disks_depth > 0 && !engine_disk_read_only(d));
    if (d->writable)
        return 0; /* also after an abort: reads go on, writes say what is wrong (P4) */
    if (core_aborted(e->core))
        return -EIO;
    r = e->life == ENGINE_INERT ? activate_engine_locked(d) : join_locked(d);
    if (r == 0)
        d->writable = true;
    return r;
}
