/* serve_stop: the clean stop (P5).
 *
 * Nothing is admitted any more; what was admitted is committed; checkpoints run until the
 * journal is empty or the time is over.  The order at the end: first a superblock that says
 * CLEAN is durable, then the image's mark is removed.  A crash between the two leaves a mark
 * that the journal knows; the other order would leave an image that looks complete and is not.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine_state.h"
#include "report.h"
#include "staging.h"

/* An image that fails at the stop may have had a bad moment, but a supervisor waits. */
#define STOP_ATTEMPTS 3

/* Refuses what comes, wakes who waits.  True if it was writable until now. */
static bool begin(struct engine *e, uint64_t deadline_ns) EXCLUDES_LOCK
{
    struct admission *waiting;
    bool was_active;
    LOCK_SCOPE(&e->lock);

    engine_disks_take_locked(e); /* no disk is being opened */
    engine_disks_give_locked(e);
    if (e->life == ENGINE_STOPPING)
        return false;
    was_active = e->life == ENGINE_ACTIVE;
    e->stop_deadline_ns = deadline_ns;
    engine_move_locked(e, e->life, ENGINE_STOPPING);
    condition_broadcast(&e->work);
    waiting = TAILQ_FIRST(&e->admissions);
    if (waiting != NULL)
        condition_signal(&waiting->turn);
    return was_active;
}

static void end_writeback(struct engine *e)
{
    if (e->writeback_started) {
        pthread_join(e->writeback_thread, NULL);
        e->writeback_started = false;
    }
}

void engine_threads_end(struct engine *e)
{
    begin(e, 0);
    end_writeback(e);
    if (e->loop_started) {
        loop_stop(e);
        pthread_join(e->loop_thread, NULL);
        e->loop_started = false;
    }
}

static int commit_last(struct engine *e) EXCLUDES_LOCK
{
    uint64_t target;

    lock_acquire(&e->lock);
    target = core_commit_all_target(e->core);
    if (target != 0)
        return engine_commit_wait_release(e, target, NULL);
    lock_release(&e->lock);
    return 0;
}

static void pause_for_retry(struct engine *e) EXCLUDES_LOCK
{
    uint64_t until_ns = clock_now_ns() + ENGINE_RETRY_NS;
    LOCK_SCOPE(&e->lock);

    if (until_ns > e->stop_deadline_ns)
        until_ns = e->stop_deadline_ns;
    while (clock_now_ns() < until_ns)
        condition_wait_until(&e->work, &e->lock, until_ns);
}

static bool is_aborted(struct engine *e) EXCLUDES_LOCK
{
    LOCK_SCOPE(&e->lock);
    return core_aborted(e->core);
}

/* True if the image alone is complete. */
static bool drain(struct engine *e)
{
    bool drained = false;
    int r;

    for (int attempt = 0; attempt < STOP_ATTEMPTS; attempt++) {
        if (attempt > 0)
            pause_for_retry(e);
        r = writeback_checkpoint(e, true, &drained);
        if (drained || r == -ETIME || r == -EBUSY || is_aborted(e))
            break;
    }
    return drained;
}

static int report_left(struct engine *e)
{
    struct core_stats stats;
    bool one = e->folder == NULL, lost = engine_lost_report(e);

    engine_stats_get(e, &stats);
    if (lost && !stats.aborted && stats.map_nodes == 0) {
        report_info("stopped, not drained: nothing waits in the journal %s, but not all that "
                    "was written straight to %s is there",
                    e->journal.storage->name, one ? "the image" : "its images");
        return 1;
    }
    report_info("stopped, not drained: %" PRIu64 " bytes of the journal %s are not in %s "
                "yet%s; the next start goes on with them, or `nbdjournal replay %s%s%s`",
                stats.used_bytes, e->journal.storage->name, engine_served(e),
                stats.aborted            ? " (the journal has failed)"
                : stats.image_error == 0 ? " (the time was over)"
                : one                    ? " (the image can't be written)"
                                         : " (an image can't be written)",
                e->journal.storage->name, one ? " " : "",
                one ? LIST_FIRST(&e->disks)->label : "");
    return stats.aborted ? -EIO : 1;
}

/* No client ever came that may write: nothing was modified.  What waited before waits still (P5). */
static void report_untouched(struct engine *e)
{
    struct core_stats stats;

    engine_stats_get(e, &stats);
    if (e->journal.storage == NULL || stats.map_nodes == 0)
        return;
    report_info("stopped; no client wrote, and what the journal %s holds for %s waits there "
                "as before; `nbdjournal replay %s%s%s` brings it home",
                e->journal.storage->name, engine_served(e), e->journal.storage->name,
                e->folder == NULL ? " " : "",
                e->folder == NULL ? LIST_FIRST(&e->disks)->label : "");
}

static int remove_mark(struct engine *e, struct core_image *image) EXCLUDES_LOCK
{
    struct engine_disk *d;
    int r;

    lock_acquire(&e->lock);
    r = engine_disk_of_image_locked(e, image, &d);
    lock_release(&e->lock);
    if (r == -ENOENT)
        return 0; /* gone, and nothing waited for it */
    if (r == 0)
        r = image_mark_remove(d->storage);
    if (r < 0)
        report_error(
            "image %s: can't remove the mark that names its journal: %s; the journal %s "
            "is empty, the image complete",
            core_image_entry(image)->name, strerror(-r), e->journal.storage->name);
    return r;
}

/* Of all images that were opened since the journal was empty. */
static int remove_marks(struct engine *e) LOCK_UNCHECKED
{
    struct core_image *image = NULL;
    int r, error = 0;

    while ((image = core_image_next(e->core, image)) != NULL) {
        if (!(core_image_entry(image)->flags & IMAGE_FLAG_PENDING))
            continue;
        r = remove_mark(e, image);
        if (r < 0)
            error = r;
    }
    return error;
}

/* The loop goes on, and with it the caller's watchers: who asks sees the stop. */
static int stop(struct engine *e, double seconds_max)
{
    bool was_active = begin(e, clock_now_ns() + (uint64_t)(seconds_max * 1e9));
    int r;

    end_writeback(e);
    if (!was_active) {
        report_untouched(e);
        return 0;
    }
    if (commit_last(e) < 0 || !drain(e))
        return report_left(e);
    staging_remove(e->journal.storage);
    r = remove_marks(e);
    if (r < 0)
        return r;
    report_info("stopped, drained: %s %s complete without %s journal", engine_served(e),
                e->folder != NULL ? "are" : "is", e->folder != NULL ? "their" : "its");
    return 0;
}

int engine_stop(struct engine *e, double seconds_max)
{
    int r = stop(e, seconds_max);

    engine_threads_end(e);
    return r;
}

void engine_stats_get(struct engine *e, struct core_stats *stats)
{
    LOCK_SCOPE(&e->lock);

    core_stats_get(e->core, stats);
    stats->empty_flushes = e->empty_flushes;
}
