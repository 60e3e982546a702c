/* due: what has to be done by a certain time, asked by the loop's timer.
 *
 *   commit interval   the oldest change that is in no commit yet gets one (led by this thread);
 *                     what bypassed the journal gets a barrier of its image (by the writeback
 *                     thread)
 *   idle drain        no request for a few seconds: the writeback thread brings all home
 */
#include "engine_state.h"

static uint64_t commit_interval_ns(const struct engine *e)
{
    return (uint64_t)(e->config.commit_interval_s * 1e9);
}

/* The commit interval: unflushed changes become durable by then.  Returns when to look again,
 * 0: when somebody arms the timer. */
static uint64_t commit_when_due_locked(struct engine *e) REQUIRES_LOCK
{
    uint64_t due_ns = e->uncommitted_ns + commit_interval_ns(e);

    if (e->uncommitted_ns == 0 || core_aborted(e->core))
        return 0;
    if (clock_now_ns() < due_ns)
        return due_ns;
    engine_commit_all_locked(e);
    return e->uncommitted_ns == 0 ? 0 : e->uncommitted_ns + commit_interval_ns(e);
}

/* The same for what bypassed the journal. */
static uint64_t flush_when_due_locked(struct engine *e) REQUIRES_LOCK
{
    uint64_t due_ns = e->bypassed_ns + commit_interval_ns(e);

    if (e->bypassed_ns == 0)
        return 0;
    if (clock_now_ns() < due_ns)
        return due_ns;
    engine_bypass_due_locked(e);
    return 0;
}

static uint64_t drain_when_due_locked(struct engine *e) REQUIRES_LOCK
{
    uint64_t due_ns = e->request_ns + ENGINE_IDLE_NS;

    if (e->drain || !core_checkpoint_possible(e->core))
        return 0; /* the writeback thread arms the timer when it has done it */
    if (clock_now_ns() < due_ns)
        return due_ns;
    e->drain = true;
    condition_signal(&e->work);
    return 0;
}

static uint64_t sooner(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns == 0 || (b_ns != 0 && b_ns < a_ns) ? b_ns : a_ns;
}

uint64_t engine_due_locked(struct engine *e)
{
    uint64_t due_ns = commit_when_due_locked(e);

    due_ns = sooner(due_ns, flush_when_due_locked(e));
    return sooner(due_ns, drain_when_due_locked(e));
}
