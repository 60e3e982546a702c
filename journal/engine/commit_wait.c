/* commit_wait: making changes durable: join a commit or lead one.
 *
 * Who needs a commit leads it himself if none is in flight: he writes the seal, waits for the
 * copies of others, calls the barrier, and wakes those who came in time.  Nobody hands over to
 * another thread on this way.  Who comes while a commit is in flight can't know that it covers
 * him, unless he was admitted before it began; he sleeps, and the next commit takes all of
 * those along (natural batching).
 *
 * Two events, for the commit in flight and for the next one, in turn: when commit n ends, *one*
 * sleeper of n+1 is woken to lead, and all of n are answered at once.  With a single event every
 * commit would wake all of the next one's sleepers for nothing.  Whom the commit covers sees it
 * in durable_lsn and goes without the lock: on a condition all of them would queue for it.
 */
#include <errno.h>
#include <inttypes.h>

#include "engine_state.h"
#include "planted.h"
#include "probes.h"
#include "report.h"

static int seal_locked(struct engine *e, struct commit *commit) REQUIRES_LOCK
{
    int r;

    if (!commit->has_seal)
        return 0;
    lock_release(&e->lock);
    r = engine_record_write(e, &commit->seal, NULL);
    lock_acquire(&e->lock);
    engine_record_copied_locked(e, &commit->seal, r);
    return r;
}

/* Carries out a commit that core_commit_begin has planned. */
static int lead_locked(struct engine *e, struct commit *commit) REQUIRES_LOCK
{
    uint64_t number = ++e->commit_number;
    uint64_t begun_ns = clock_now_ns(), barrier_ns, ended_ns;
    uint64_t from, to;
    int r;

    e->committing = true;
    e->commit_target_lsn = commit->target_lsn;
    e->uncommitted_ns = 0;
    batch_commit_begin(e->batch, begun_ns);
    probe_commit_begin(number, commit->target_lsn);
    if (e->gathering)
        condition_signal(&e->gather); /* this one takes it along */

    r = seal_locked(e, commit);
    while (!core_commit_ready(e->core, commit))
        engine_await_published_locked(e);
    while (core_commit_submit(e->core, commit, &from, &to))
        engine_submit_locked(e, from, to);
    barrier_ns = clock_now_ns();
    if (r == 0)
        r = engine_journal_barrier_locked(e);
    ended_ns = clock_now_ns();

    commit->took_us = (ended_ns - begun_ns) / 1000;
    core_commit_end(e->core, commit, r);
    e->committing = false;
    batch_commit_end(e->batch, ended_ns,
                     commit->mark.position - commit->gap_bytes - e->committed_position, r);
    e->committed_position = commit->mark.position;
    atomic_store(&e->commit_ended_ns, ended_ns);
    /* Who leads the next one first: the disk is idle until then. */
    if (!core_aborted(e->core))
        atomic_store(&e->durable_lsn, commit->target_lsn);
    event_wake_one(&e->durable[(number + 1) % 2]);
    event_wake_all(&e->durable[number % 2]);
    stats_commit_locked(e, ended_ns - begun_ns, r);
    probe_commit_end(number, ended_ns - begun_ns, r);
    engine_announce_locked(e);
    if (e->config.trace_commits) {
        report_debug("commit %" PRIu64 ": up to lsn %" PRIu64 ", %" PRIu64
                     " us, of them barrier %" PRIu64 " us%s",
                     number, commit->target_lsn, (ended_ns - begun_ns) / 1000,
                     (ended_ns - barrier_ns) / 1000, r < 0 ? ", failed" : "");
    }
    return r;
}

/* Somebody waits for lsn now.  The commit in flight may cover it (admitted before it began).
 * Returns the time. */
static uint64_t arrive_locked(struct engine *e, uint64_t lsn,
                              const struct engine_client *who) REQUIRES_LOCK
{
    uint64_t now_ns = clock_now_ns();

    if (e->committing && lsn <= e->commit_target_lsn) {
        batch_arrive_covered(e->batch, who->client, who->connection, now_ns);
        return now_ns;
    }
    if (e->gathering)
        stats_company_locked(who);
    if (batch_arrive(e->batch, who->client, who->connection, now_ns))
        condition_signal(&e->gather);
    return now_ns;
}

/* Holds the next commit back as long as company is worth the wait (batch.h), or until one
 * begins that nobody waited for. */
static void gather_locked(struct engine *e, const struct engine_client *who) REQUIRES_LOCK
{
    uint64_t begun_ns = clock_now_ns(), now_ns = begun_ns, until_ns;

    e->gathering = true;
    while (!e->committing && !core_aborted(e->core) &&
           batch_consult(e->batch, now_ns, &until_ns) == BATCH_WAIT) {
        condition_wait_until(&e->gather, &e->lock, until_ns);
        now_ns = clock_now_ns();
    }
    e->gathering = false;
    if (now_ns != begun_ns)
        stats_held_locked(who, now_ns - begun_ns);
}

/* Sleeps until the commit in flight has ended, if it covers lsn, or until the next one has, or
 * must be led.  Drops the lock. */
static void await_commit_release(struct engine *e, uint64_t lsn) RELEASES_LOCK
{
    bool covered = e->committing && lsn <= e->commit_target_lsn;
    struct event *end = &e->durable[(e->commit_number + !covered) % 2];
    uint32_t entered = event_enter(end);

    lock_release(&e->lock);
    /* planted: what happened since the lock was dropped is slept over */
    event_wait(end, PLANTED(70) ? atomic_load(&end->count) : entered);
}

int engine_commit_wait_release(struct engine *e, uint64_t lsn, const struct engine_client *who)
{
    struct commit commit;
    bool gathered = who == NULL;
    uint64_t arrived_ns = 0;
    int r = core_durable_check(e->core, lsn);

    if (r == -EAGAIN && who != NULL)
        arrived_ns = arrive_locked(e, lsn, who);
    while (r == -EAGAIN) {
        if (e->committing || (e->gathering && who != NULL)) {
            await_commit_release(e, lsn);
            if (atomic_load(&e->durable_lsn) >= lsn) {
                stats_durable(e, who, arrived_ns);
                return 0;
            }
            lock_acquire(&e->lock);
            gathered = who == NULL;
        } else if (!gathered) {
            gather_locked(e, who);
            gathered = true;
        } else {
            r = core_commit_begin(e->core, &commit, clock_wall_us());
            if (r == 0)
                r = lead_locked(e, &commit);
            if (r != 0) {
                /* 1, nothing to commit: no such lsn, the core would have said so */
                r = -EIO;
                break;
            }
        }
        r = core_durable_check(e->core, lsn);
    }
    lock_release(&e->lock);
    if (r == 0)
        stats_durable(e, who, arrived_ns);
    return r;
}

int engine_commit_all_locked(struct engine *e)
{
    struct commit commit;
    int r;

    if (e->committing) {
        await_commit_release(e, 0);
        lock_acquire(&e->lock);
        return 0;
    }
    r = core_commit_begin(e->core, &commit, clock_wall_us());
    if (r == 0)
        return lead_locked(e, &commit);
    return r < 0 ? r : 0;
}

void engine_disconnect(struct engine *e, const struct engine_client *who)
{
    LOCK_SCOPE(&e->lock);

    stats_disconnect_locked(who->stats);
    if (batch_disconnect(e->batch, who->connection, clock_now_ns()))
        condition_signal(&e->gather);
}

/* A flush while there is no client yet that may write: what recovery found was answered by a
 * server that died.  What is only in staging can't be made durable without writing it. */
static int flush_recovered_locked(struct engine *e) REQUIRES_LOCK
{
    int r;

    if (e->recovered_durable)
        return core_aborted(e->core) ? -EIO : 0;
    if (e->staging_found)
        return -EROFS;
    r = engine_journal_barrier_locked(e);
    if (r == 0)
        e->recovered_durable = true;
    return r;
}

/* 0: what a flush of this disk needs is durable.  1: it is *lsn that must be.  -errno. */
static int flush_target_locked(struct engine_disk *d, uint64_t *lsn) REQUIRES_LOCK
{
    struct engine *e = d->engine;
    uint64_t image_target;
    int r;

    engine_touch_locked(e);
    while (e->life == ENGINE_ACTIVATING)
        condition_wait(&e->activated, &e->lock);
    if (e->life == ENGINE_INERT)
        return flush_recovered_locked(e);
    /* P1: everything that was answered before this flush came. */
    *lsn = core_flush_target(e->core, d->image);
    image_target = core_image_flush_target(d->image);
    if (image_target != 0) {
        r = engine_image_flush_locked(d, image_target);
        if (r < 0)
            return r;
    }
    if (*lsn != 0)
        return 1;
    if (image_target == 0)
        e->empty_flushes++;
    return 0;
}

int engine_flush(struct engine_disk *d, const struct engine_client *who)
{
    struct engine *e = d->engine;
    uint64_t lsn = 0;
    int r;

    lock_acquire(&e->lock);
    r = flush_target_locked(d, &lsn);
    if (r == 1)
        return engine_commit_wait_release(e, lsn, who);
    lock_release(&e->lock);
    return r;
}
