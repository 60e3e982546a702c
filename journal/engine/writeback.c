/* writeback: carries out the core's checkpoints, and writes the ring's first lap.
 *
 * A thread of its own, which sleeps until the ring is half full, somebody waits for space, or
 * the disk has been idle for a while.  The clean stop and the activation of a full journal run
 * a checkpoint in their own thread, with the same code; there is only one at a time.
 *
 * An image that can't be written does not stop the journal: its data stays in the ring, the
 * checkpoint is tried again each second, and only when the ring is full do writers learn of it.
 * It is reported when it begins and when it has ended.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine_state.h"
#include "probes.h"
#include "report.h"
#include "staging.h"

/* A trim may be as long as the image, and where holes are not possible zeroes are written: in
 * pieces, so that a stop is not held up by it. */
#define ZERO_PIECE (UINT64_C(256) << 20)

/* The first lap is written in pieces; a commit may have to wait for one. */
#define PREWRITE_PIECE (UINT64_C(1) << 20)
#define PAGE 4096u

#define CARRY_RETRY_NS UINT64_C(2000000)

/* With requests under way, three quarters of the disk's time are theirs. */
#define PREWRITE_PAUSE 3
#define BUSY_NS UINT64_C(200000000)

/* Not everybody who waits wakes us. */
#define PAUSE_NS UINT64_C(5000000)

/* While somebody reads, the checkpoint takes a quarter of the time. */
#define READER_PAUSE 3

static bool stop_is_over_locked(const struct engine *e) REQUIRES_LOCK
{
    return e->life == ENGINE_STOPPING && clock_now_ns() >= e->stop_deadline_ns;
}

static bool stop_is_over(struct engine *e) EXCLUDES_LOCK
{
    LOCK_SCOPE(&e->lock);
    return stop_is_over_locked(e);
}

/* ---- what an image goes through ---- */

/* Called with the result of each attempt.  Says when an image begins to fail and when it is
 * well again, not each time. */
static void note_image_locked(struct engine_disk *d, const char *what, int error) REQUIRES_LOCK
{
    if (error == 0) {
        if (d->writeback_error != 0) {
            report_info("image %s: writeback works again, nothing was lost", d->label);
            d->writeback_error = 0;
        }
        return;
    }
    if (d->writeback_error == error)
        return;
    d->writeback_error = error;
    if (d->storage == NULL) {
        report_error(
            "image %s: data waits for it in the journal, and its file is %s; the data stays in "
            "the journal until the file is back, or is dropped with `nbdjournal forget %s %s "
            "--yes`",
            d->label, error == -ENOENT ? "not there" : "not to be had",
            d->engine->journal.storage->name, d->label);
    } else {
        report_error(
            "image %s: %s failed: %s; what is not written stays in the journal, and is "
            "tried again every second; writes fail when the journal is full",
            d->label, what, strerror(-error));
    }
}

static int zero_home(struct engine_disk *d, const struct checkpoint_segment *segment)
{
    uint64_t offset = segment->offset, end = offset + segment->length;
    int r = 0;

    while (offset < end && r == 0) {
        uint64_t piece = end - offset < ZERO_PIECE ? end - offset : ZERO_PIECE;

        r = storage_zero(d->storage, offset, piece, segment->source == READ_TRIMMED);
        offset += piece;
        if (r == 0 && offset < end && stop_is_over(d->engine))
            r = -ETIME;
    }
    return r;
}

/* Copies neighbours in the image with one write, from segment i on.  Returns how many, or
 * -errno; *from_journal tells whose error it is. */
static int copy_run_home(struct engine_disk *d, const struct checkpoint_step *step, size_t i,
                         bool *from_journal)
{
    struct engine *e = d->engine;
    uint64_t offset = step->segments[i].offset, end = offset;
    size_t n = 0;
    int r;

    *from_journal = true;
    while (i + n < step->count) {
        const struct checkpoint_segment *s = &step->segments[i + n];

        if (s->source != READ_JOURNAL || s->offset != end)
            break;
        assert(end - offset + s->length <= CHECKPOINT_BYTES);
        r = storage_read(e->journal.storage, e->copy_buffer + (end - offset), s->length,
                         engine_file_offset(e, s->position));
        if (r < 0)
            return r;
        end += s->length;
        n++;
    }
    *from_journal = false;
    r = storage_write(d->storage, e->copy_buffer, end - offset, offset);
    return r < 0 ? r : (int)n;
}

/* A page that is written in part is read before.  All of the step's at the same time, not one by
 * one: that is a seek each. */
static void read_edges_ahead(struct engine_disk *d, const struct checkpoint_step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        const struct checkpoint_segment *s = &step->segments[i];

        if (s->source == READ_JOURNAL && (s->offset | s->length) % PAGE != 0)
            storage_read_ahead(d->storage, s->offset, s->length);
    }
}

/* What others of the same disk have to wait for is bounded by a step (core/pace.c). */
static int write_out(struct engine_disk *d, const struct checkpoint_step *step)
{
    const struct checkpoint_segment *last = &step->segments[step->count - 1];
    uint64_t from = step->segments[0].offset;

    return engine_image_write_out(d, from, last->offset + last->length - from, step->barrier);
}

static int copy_home(struct engine_disk *d, const struct checkpoint_step *step,
                     const char **what)
{
    bool from_journal = false;
    size_t i = 0;
    int r = 0;

    read_edges_ahead(d, step);

    while (i < step->count && r >= 0) {
        if (step->segments[i].source == READ_JOURNAL) {
            r = copy_run_home(d, step, i, &from_journal);
            i += r < 0 ? 0 : (size_t)r;
        } else {
            from_journal = false;
            r = zero_home(d, &step->segments[i]);
            i++;
        }
    }
    *what = from_journal ? "reading the journal for it" : "writing";
    if (r < 0)
        return r;
    *what = "flushing";
    return write_out(d, step);
}

/* ---- a checkpoint ---- */

static int await_readers_locked(struct engine *e) REQUIRES_LOCK
{
    /* Bounded by the disk: a reader waits for nothing else while it holds its plan. */
    while (!core_checkpoint_readers_gone(e->core) && !core_aborted(e->core))
        condition_wait(&e->readers, &e->lock);
    return 0;
}

int engine_super_write_locked(struct engine *e, const struct super_plan *plan)
{
    int r;

    lock_release(&e->lock);
    r = storage_write(e->journal.storage, plan->bytes, plan->bytes_count, plan->offset);
    lock_acquire(&e->lock);
    if (r < 0)
        engine_abort_locked(e, "write of the superblock", r);
    else
        r = engine_journal_barrier_locked(e);
    return r;
}

/* What this image can't take is appended again, so that the tail can pass it. */
static int carry_locked(struct engine *e, struct checkpoint_step *step) REQUIRES_LOCK
{
    const struct checkpoint_segment *s = &step->segments[0];
    struct append a = {.state = APPEND_IDLE};
    uint64_t sum = 0;
    int r = 0;

    if (s->source == READ_JOURNAL) {
        lock_release(&e->lock);
        r = storage_read(e->journal.storage, e->copy_buffer, s->length,
                         engine_file_offset(e, s->position));
        if (r == 0)
            sum = format_sum(e->seed, e->copy_buffer, s->length);
        lock_acquire(&e->lock);
    }
    if (r < 0)
        return r;
    while ((r = core_carry_begin(e->core, step, &a, sum, clock_wall_us())) == -EAGAIN) {
        if (core_aborted(e->core))
            return -EIO;
        engine_announce_locked(e);
        /* For a copy, a submission or a reader to end: rare, and not worth a condition. */
        condition_wait_until(&e->published, &e->lock, clock_now_ns() + CARRY_RETRY_NS);
    }
    if (r != 0)
        return r < 0 ? r : 0;
    lock_release(&e->lock);
    r = engine_record_write(e, &a, e->copy_buffer);
    lock_acquire(&e->lock);
    engine_record_copied_locked(e, &a, r);
    while (a.state == APPEND_COPIED)
        engine_await_published_locked(e);
    engine_submit_all_locked(e);
    return r;
}

/* The part of the ring comes into the page cache, unless it is staged. */
static void load_locked(struct engine *e, const struct checkpoint_step *step) REQUIRES_LOCK
{
    uint64_t offset = engine_file_offset(e, step->load_from);
    uint64_t count = step->load_to - step->load_from;

    lock_release(&e->lock);
    storage_read_ahead(e->journal.storage, offset, count);
    /* Waits for it: a long queue would be in the way of others.  The copy reports errors. */
    (void)storage_read(e->journal.storage, e->copy_buffer, count, offset);
    lock_acquire(&e->lock);
    if (e->loaded_from == e->loaded_to)
        e->loaded_from = step->load_from;
    e->loaded_to = step->load_to;
}

/* It is home, and its place in the ring will be written past the page cache. */
static void forget_loaded_locked(struct engine *e) REQUIRES_LOCK
{
    uint64_t from = e->loaded_from, to = e->loaded_to;

    e->loaded_from = e->loaded_to = 0;
    lock_release(&e->lock);
    while (from < to) {
        uint64_t left = e->ring_bytes - from % e->ring_bytes;
        uint64_t count = to - from < left ? to - from : left;

        storage_forget(e->journal.storage, engine_file_offset(e, from), count);
        from += count;
    }
    lock_acquire(&e->lock);
}

/* Somebody waits for what the checkpoint will free, or for its end. */
static bool is_urgent_locked(const struct engine *e) REQUIRES_LOCK
{
    return core_checkpoint_urgent(e->core) || !TAILQ_EMPTY(&e->admissions) ||
           e->life != ENGINE_ACTIVE || core_aborted(e->core);
}

/* After a step, the disk is left to others for as long as the step has taken, for longer while
 * somebody reads.  Unless it is urgent, or there are no others. */
static void pause_locked(struct engine *e, uint64_t took_ns) REQUIRES_LOCK
{
    uint64_t now_ns = clock_now_ns(), until_ns;

    if (now_ns - e->request_ns > BUSY_NS)
        return;
    until_ns = now_ns + took_ns * (e->plans > 0 ? READER_PAUSE : 1);
    for (; !is_urgent_locked(e) && now_ns < until_ns; now_ns = clock_now_ns())
        condition_wait_until(&e->work, &e->lock,
                             until_ns < now_ns + PAUSE_NS ? until_ns : now_ns + PAUSE_NS);
}

/* Carries out a step; the lock is dropped over I/O. */
static int step_carry_out_locked(struct engine *e, struct checkpoint_step *step) REQUIRES_LOCK
{
    const char *what = "flushing";
    struct engine_disk *d;
    int r;

    switch (step->kind) {
    case STEP_COMMIT:
        return engine_commit_all_locked(e);
    case STEP_READERS:
        return await_readers_locked(e);
    case STEP_SUPER:
        return engine_super_write_locked(e, &step->super);
    case STEP_COPY:
    case STEP_FLUSH_IMAGE:
        r = engine_disk_of_image_locked(e, step->image, &d);
        if (r == 0 && step->kind == STEP_COPY) {
            lock_release(&e->lock);
            r = copy_home(d, step, &what);
            lock_acquire(&e->lock);
        } else if (r == 0) {
            r = engine_image_barrier_locked(d);
        } else if (r == -ENOENT && step->kind == STEP_FLUSH_IMAGE) {
            /* Nothing was copied to a file that is not there. */
            return engine_image_gone_locked(e, step->image);
        }
        if (r < 0 && r != -ETIME && d != NULL)
            note_image_locked(d, what, r);
        if (d != NULL)
            d->flushed = r == 0 && step->kind == STEP_FLUSH_IMAGE;
        return r;
    case STEP_CARRY:
        return carry_locked(e, step);
    case STEP_LOAD:
        load_locked(e, step);
        break;
    case STEP_RETIRE:
    case STEP_DONE:
        break;
    }
    return 0;
}

/* Runs the checkpoint that was begun.  Between two steps others get the lock. */
static int steps_run_locked(struct engine *e, bool *drained) REQUIRES_LOCK
{
    struct checkpoint_step *step = e->step;
    struct engine_disk *d;
    uint64_t begun_ns;
    int r;

    for (;;) {
        if (stop_is_over_locked(e))
            return -ETIME;
        while (e->super_writing)
            condition_wait(&e->super_free, &e->lock);
        r = core_checkpoint_next(e->core, step, clock_wall_us());
        if (r < 0)
            return r;
        if (step->kind == STEP_DONE)
            break;
        begun_ns = clock_now_ns();
        r = step_carry_out_locked(e, step);
        step->took_us = (clock_now_ns() - begun_ns) / 1000;
        if (e->config.trace_commits && step->kind == STEP_COPY)
            report_debug("checkpoint: %zu pieces home in %" PRIu64 " us", step->count,
                         step->took_us);
        core_checkpoint_step_end(e->core, step, r);
        if (step->kind == STEP_SUPER)
            condition_broadcast(&e->super_free);
        engine_announce_locked(e);
        if (r < 0 && (r == -ETIME || core_aborted(e->core)))
            return r;
        if (step->kind == STEP_SUPER && step->super.clean && drained != NULL)
            *drained = true;
        if (step->kind == STEP_RETIRE) {
            lock_release(&e->lock);
            lock_acquire(&e->lock);
        }
        if (step->kind == STEP_COPY || step->kind == STEP_LOAD)
            pause_locked(e, step->took_us * 1000);
    }
    forget_loaded_locked(e);
    LIST_FOREACH (d, &e->disks, link) {
        if (d->flushed || step->error == 0)
            note_image_locked(d, NULL, 0);
    }
    return step->error;
}

/* For people: stats, probes. */
static void note_checkpoint_end_locked(struct engine *e, uint64_t begun_ns,
                                       int error) REQUIRES_LOCK
{
    struct core_stats stats;

    core_stats_get(e->core, &stats);
    probe_checkpoint_end(stats.used_bytes, clock_now_ns() - begun_ns, error);
    if (error < 0 && error != -ETIME)
        e->stats.checkpoints_failed++;
}

int writeback_checkpoint(struct engine *e, bool clean, bool *drained)
{
    uint64_t begun_ns = clock_now_ns();
    struct core_stats stats;
    int r;
    LOCK_SCOPE(&e->lock);

    if (e->checkpoint_running)
        return -EBUSY;
    r = core_checkpoint_begin(e->core, clean);
    if (r < 0)
        return r;
    e->checkpoint_running = true;
    core_stats_get(e->core, &stats);
    probe_checkpoint_begin(stats.used_bytes, stats.ring_bytes);
    r = steps_run_locked(e, drained);
    e->checkpoint_running = false;
    note_checkpoint_end_locked(e, begun_ns, r);
    return r;
}

/* ---- the ring's first lap (DESIGN 5.4) ---- */

/* Writes one piece and makes it durable, so that commits find no extents to convert and little
 * unwritten.  False: nothing to do. */
static bool prewrite_piece_locked(struct engine *e) REQUIRES_LOCK
{
    uint64_t from, count, begun_ns, now_ns;
    int r;

    if (!core_prewrite_begin(e->core, PREWRITE_PIECE, &from, &count))
        return false;
    begun_ns = clock_now_ns();
    lock_release(&e->lock);
    r = staging_prewrite(e->journal.storage, engine_file_offset(e, from), count);
    lock_acquire(&e->lock);
    /* A failed write is no reason to stop: an append will show if the disk is bad.  A failed
     * barrier is: it may have been about a record. */
    if (r == 0)
        r = engine_journal_barrier_locked(e);
    core_prewrite_end(e->core, r);
    engine_announce_locked(e);

    now_ns = clock_now_ns();
    e->prewrite_ns = now_ns;
    if (now_ns - e->request_ns < BUSY_NS)
        e->prewrite_ns += PREWRITE_PAUSE * (now_ns - begun_ns);
    return true;
}

/* ---- the thread ---- */

static bool checkpoint_due_locked(const struct engine *e) REQUIRES_LOCK
{
    return !core_aborted(e->core) &&
           (core_checkpoint_wanted(e->core) || (e->drain && core_checkpoint_possible(e->core)));
}

/* Does one piece of work if one is due; else returns when one may be due. */
static void work_locked(struct engine *e) REQUIRES_LOCK
{
    uint64_t now_ns = clock_now_ns(), tail;
    int r;

    if (e->life != ENGINE_ACTIVE) {
        condition_wait(&e->work, &e->lock);
    } else if (engine_flush_due_locked(e)) {
        return;
    } else if (checkpoint_due_locked(e)) {
        /* An image that fails is carried: the others need not wait until it is tried again. */
        if (now_ns < e->writeback_retry_ns &&
            !(e->writeback_gains && core_checkpoint_wanted(e->core))) {
            condition_wait_until(&e->work, &e->lock, e->writeback_retry_ns);
            return;
        }
        tail = core_tail_position(e->core);
        lock_release(&e->lock);
        r = writeback_checkpoint(e, false, NULL);
        lock_acquire(&e->lock);
        e->writeback_gains = core_tail_position(e->core) != tail;
        if (r < 0) {
            e->writeback_retry_ns = clock_now_ns() + ENGINE_RETRY_NS;
        } else {
            /* What came meanwhile is drained when it is idle again. */
            e->drain = false;
            engine_disks_trim_locked(e);
            if (core_checkpoint_possible(e->core))
                engine_arm_locked(e);
        }
    } else if (now_ns < e->prewrite_ns) {
        condition_wait_until(&e->work, &e->lock, e->prewrite_ns);
    } else if (!prewrite_piece_locked(e)) {
        condition_wait(&e->work, &e->lock);
    }
}

void *writeback_main(void *engine)
{
    struct engine *e = engine;
    LOCK_SCOPE(&e->lock);

    while (e->life != ENGINE_STOPPING)
        work_locked(e);
    return NULL;
}
