/* commit_wait: making changes durable: join a commit or lead one.
 *
 * Who needs a commit leads it himself if none is in flight: he writes the seal, waits for the
 * copies of others, calls the barrier, and wakes those who came in time.  Nobody hands over to
 * another thread on this way.  Who comes while a commit is in flight can't know that it covers
 * him, unless he was admitted before it began; he sleeps, and the next commit takes all of
 * those along (natural batching).
 *
 * Two conditions, for the commit in flight and for the next one, in turn: when commit n ends,
 * all sleepers of n are answered at once, and *one* of n+1 is woken to lead.  With a single
 * condition every commit would wake all of the next one's sleepers for nothing.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine_state.h"
#include "report.h"
#include "staging.h"

static void wake_all_locked(struct engine *e) REQUIRES_LOCK
{
    condition_broadcast(&e->durable[0]);
    condition_broadcast(&e->durable[1]);
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

/* The kernel reports a failed writeback to *one* of the calls that could learn of it: of two
 * barriers at the same time one may succeed although what it covers is lost.  So there is one
 * at a time, and its failure ends the journal before the next one can begin (P4). */
static int barrier_begin_locked(struct engine *e) REQUIRES_LOCK
{
    while (e->barrier_busy)
        condition_wait(&e->barrier_free, &e->lock);
    if (core_aborted(e->core))
        return -EIO;
    e->barrier_busy = true;
    return 0;
}

static void barrier_end_locked(struct engine *e, int error) REQUIRES_LOCK
{
    e->barrier_busy = false;
    condition_signal(&e->barrier_free);
    if (error < 0)
        engine_abort_locked(e, "flush", error);
}

int engine_journal_barrier_locked(struct engine *e)
{
    int r = barrier_begin_locked(e);

    if (r < 0)
        return r;
    lock_release(&e->lock);
    r = storage_barrier(e->journal.storage);
    lock_acquire(&e->lock);
    barrier_end_locked(e, r);
    return r;
}

/* P0's "answered is not durable": what recovery found may be in memory only, in the page cache
 * or in staging.  It becomes durable before anything is built on it. */
int engine_settle_locked(struct engine *e)
{
    int r = barrier_begin_locked(e);

    if (r < 0)
        return r;
    lock_release(&e->lock);
    r = staging_settle(e->journal.storage, e->start_position);
    lock_acquire(&e->lock);
    barrier_end_locked(e, r);
    if (r == 0)
        e->recovered_durable = true;
    return r;
}

int engine_submit_locked(struct engine *e, uint64_t from, uint64_t to)
{
    int r;

    lock_release(&e->lock);
    r = storage_submit(e->journal.storage, engine_file_offset(e, from), to - from);
    lock_acquire(&e->lock);
    if (r < 0)
        engine_abort_locked(e, "submitting records", r);
    core_submit_end(e->core, r);
    engine_announce_locked(e);
    if (e->published_sleepers > 0)
        condition_broadcast(&e->published); /* a commit waits for the end of submissions, too */
    return r;
}

bool engine_submit_all_locked(struct engine *e)
{
    uint64_t from, to;
    bool any = false;

    while (core_submit_begin(e->core, &from, &to)) {
        engine_submit_locked(e, from, to);
        any = true;
    }
    return any;
}

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

void engine_await_published_locked(struct engine *e)
{
    e->published_sleepers++;
    condition_wait(&e->published, &e->lock);
    e->published_sleepers--;
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

    core_commit_end(e->core, commit, r);
    e->committing = false;
    batch_commit_end(e->batch, ended_ns, commit->mark.position - e->committed_position, r);
    e->committed_position = commit->mark.position;
    condition_broadcast(&e->durable[number % 2]);
    condition_signal(&e->durable[(number + 1) % 2]);
    engine_announce_locked(e);
    if (e->config.trace_commits) {
        report_debug("commit %" PRIu64 ": up to lsn %" PRIu64 ", %" PRIu64
                     " us, of them barrier %" PRIu64 " us%s",
                     number, commit->target_lsn, (ended_ns - begun_ns) / 1000,
                     (ended_ns - barrier_ns) / 1000, r < 0 ? ", failed" : "");
    }
    return r;
}

/* Somebody waits for lsn now.  The commit in flight may cover it (admitted before it began). */
static void arrive_locked(struct engine *e, uint64_t lsn,
                          const struct engine_client *who) REQUIRES_LOCK
{
    uint64_t now_ns = clock_now_ns();

    if (e->committing && lsn <= e->commit_target_lsn)
        batch_arrive_covered(e->batch, who->client, who->connection, now_ns);
    else if (batch_arrive(e->batch, who->client, who->connection, now_ns))
        condition_signal(&e->gather);
}

/* Holds the next commit back as long as company is worth the wait (batch.h), or until one
 * begins that
 * nobody waited for. */
static void gather_locked(struct engine *e) REQUIRES_LOCK
{
    uint64_t until_ns;

    e->gathering = true;
    while (!e->committing && !core_aborted(e->core) &&
           batch_consult(e->batch, clock_now_ns(), &until_ns) == BATCH_WAIT)
        condition_wait_until(&e->gather, &e->lock, until_ns);
    e->gathering = false;
}

/* Sleeps until the commit in flight has ended, if it covers lsn, or until the next one has, or
 * must be led. */
static void await_commit_locked(struct engine *e, uint64_t lsn) REQUIRES_LOCK
{
    bool covered = e->committing && lsn <= e->commit_target_lsn;

    condition_wait(&e->durable[(e->commit_number + !covered) % 2], &e->lock);
}

int engine_commit_wait_locked(struct engine *e, uint64_t lsn, const struct engine_client *who)
{
    struct commit commit;
    bool gathered = who == NULL;
    int r = core_durable_check(e->core, lsn);

    if (r != -EAGAIN)
        return r;
    if (who != NULL)
        arrive_locked(e, lsn, who);
    while ((r = core_durable_check(e->core, lsn)) == -EAGAIN) {
        if (e->committing || (e->gathering && who != NULL)) {
            await_commit_locked(e, lsn);
            gathered = who == NULL;
        } else if (!gathered) {
            gather_locked(e);
            gathered = true;
        } else {
            r = core_commit_begin(e->core, &commit, clock_wall_us());
            if (r == 0)
                r = lead_locked(e, &commit);
            if (r != 0)
                /* 1, nothing to commit: no such lsn, the core would have said so */
                return -EIO;
        }
    }
    return r;
}

int engine_commit_all_locked(struct engine *e)
{
    struct commit commit;
    int r;

    if (e->committing) {
        await_commit_locked(e, 0);
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

int engine_flush(struct engine_disk *d, const struct engine_client *who)
{
    struct engine *e = d->engine;
    uint64_t target;
    LOCK_SCOPE(&e->lock);

    engine_touch_locked(e);
    while (e->life == ENGINE_ACTIVATING)
        condition_wait(&e->activated, &e->lock);
    if (e->life == ENGINE_INERT)
        return flush_recovered_locked(e);
    /* P1: everything that was answered before this flush came. */
    target = core_flush_target(e->core, d->image);
    if (target == 0) {
        e->empty_flushes++;
        return 0;
    }
    return engine_commit_wait_locked(e, target, who);
}
