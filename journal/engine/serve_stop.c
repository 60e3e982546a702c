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

    while (e->life == ENGINE_ACTIVATING)
        condition_wait(&e->activated, &e->lock);
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

void engine_threads_end(struct engine *e)
{
    begin(e, 0);
    if (e->loop_started) {
        loop_stop(e);
        pthread_join(e->loop_thread, NULL);
        e->loop_started = false;
    }
    if (e->writeback_started) {
        pthread_join(e->writeback_thread, NULL);
        e->writeback_started = false;
    }
}

static int commit_last(struct engine *e) EXCLUDES_LOCK
{
    uint64_t target;
    LOCK_SCOPE(&e->lock);

    target = core_commit_all_target(e->core);
    return target == 0 ? 0 : engine_commit_wait_locked(e, target, NULL);
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

    engine_stats_get(e, &stats);
    report_info("stopped, not drained: %" PRIu64 " bytes of the journal %s are not in image %s "
                "yet%s; the next start goes on with them, or `nbdjournal replay %s %s`",
                stats.used_bytes, e->journal.storage->name, e->image->name,
                stats.aborted            ? " (the journal has failed)"
                : stats.image_error != 0 ? " (the image can't be written)"
                                         : " (the time was over)",
                e->journal.storage->name, e->image->name);
    return stats.aborted ? -EIO : 1;
}

/* No client ever came that may write: nothing was modified.  What waited before waits still (P5). */
static void report_untouched(struct engine *e)
{
    struct core_stats stats;

    engine_stats_get(e, &stats);
    if (e->journal.storage == NULL || stats.map_nodes == 0)
        return;
    report_info(
        "stopped; no client wrote, and what the journal %s holds for image %s waits there "
        "as before; `nbdjournal replay %s %s` brings it home",
        e->journal.storage->name, e->image->name, e->journal.storage->name, e->image->name);
}

int engine_stop(struct engine *e, double seconds_max)
{
    bool was_active = begin(e, clock_now_ns() + (uint64_t)(seconds_max * 1e9));
    int r;

    engine_threads_end(e);
    if (!was_active) {
        report_untouched(e);
        return 0;
    }
    if (commit_last(e) < 0 || !drain(e))
        return report_left(e);
    staging_remove(e->journal.storage);
    r = image_mark_remove(e->image);
    if (r < 0) {
        report_error(
            "image %s: can't remove the mark that names its journal: %s; the journal %s "
            "is empty, the image complete",
            e->image->name, strerror(-r), e->journal.storage->name);
        return r;
    }
    report_info("stopped, drained: image %s is complete without its journal", e->image->name);
    return 0;
}

void engine_stats_get(struct engine *e, struct core_stats *stats)
{
    LOCK_SCOPE(&e->lock);

    core_stats_get(e->core, stats);
    stats->empty_flushes = e->empty_flushes;
}
