/* announce: telling the sleepers of the engine what has changed in the core.
 *
 * The core is without threads: a call into it may publish records, free space or abort, and who
 * waits for that sleeps on a condition.  Each call that may have done so is followed by one
 * look here at what is new since the last look.
 */
#include <string.h>

#include "engine_state.h"
#include "report.h"

static void wake_all_locked(struct engine *e) REQUIRES_LOCK
{
    event_wake_all(&e->durable[0]);
    event_wake_all(&e->durable[1]);
    condition_broadcast(&e->gather);
    condition_broadcast(&e->barrier_free);
    condition_broadcast(&e->readers);
    condition_broadcast(&e->work);
}

void engine_announce_locked(struct engine *e)
{
    uint64_t published = core_published_lsn(e->core);
    uint64_t space = core_space_generation(e->core);
    bool aborted = core_aborted(e->core);
    bool aborted_now = aborted && !e->announced_abort;
    struct admission *first;

    if ((published != e->announced_published || aborted) && e->published_sleepers > 0)
        condition_broadcast(&e->published);
    if (space != e->announced_space || aborted_now) {
        /* The first of the queue; when it is through it wakes the next. */
        first = TAILQ_FIRST(&e->admissions);
        if (first != NULL)
            condition_signal(&first->turn);
    }
    if (aborted_now)
        wake_all_locked(e);
    else if (!e->checkpoint_running && core_checkpoint_wanted(e->core))
        condition_signal(&e->work);
    if (atomic_load(&e->drained) == 0 && core_drained(e->core))
        atomic_store(&e->drained, ++e->drained_times);
    e->announced_published = published;
    e->announced_space = space;
    e->announced_abort = aborted;
}

void engine_abort_locked(struct engine *e, const char *what, int error)
{
    if (!e->abort_reported) {
        e->abort_reported = true;
        report_error(
            "journal %s: %s failed: %s; from now on every write and flush fails, reads "
            "go on; mend what is wrong with the journal's disk and start again: recovery "
            "finds all that was flushed",
            e->journal.storage->name, what, strerror(-error));
    }
    core_abort(e->core, error);
    engine_announce_locked(e);
}
