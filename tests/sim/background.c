/* background: who works without a client: interval commits, the checkpoint, the prewriter, the
 * first writable open, the clean stop. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "memory.h"
#include "world.h"

/* ---- interval commits ---- */

/* And what bypassed the journal, of one image.  False: nothing was done. */
static bool flush_some_image(struct world *w)
{
    struct image_job *job = &w->image_flusher;
    unsigned image;
    uint64_t target;

    if (job->state != IMAGE_JOB_NONE)
        return image_job_step(w, job) != JOB_WAITS;
    if (w->activator.state != ACTIVATOR_DONE || w->quiet ||
        !rng_chance(&w->rng, w->setup.commit_percent))
        return false;
    image = rng_below(&w->rng, w->setup.image_count);
    target = core_image_flush_target(w->core_images[image]);
    if (target == 0)
        return false;
    story(w, "interval flush of image %u", image);
    image_job_start(w, job, image, target);
    return true;
}

enum job_result committer_step(struct world *w)
{
    struct sync_job *sync = &w->committer;

    if (w->setup.bypass_bytes != 0 && flush_some_image(w))
        return JOB_RAN;
    if (sync->state == SYNC_JOB_NONE) {
        if (w->activator.state != ACTIVATOR_DONE || core_aborted(w->core) ||
            !(core_commit_due(w->core) ||
              (!w->quiet && rng_chance(&w->rng, w->setup.commit_percent))) ||
            core_commit_all_target(w->core) == 0)
            return JOB_WAITS;
        story(w, "interval commit");
        sync_job_start_all(sync);
        return JOB_RAN;
    }
    return sync_job_step(w, sync) == JOB_WAITS ? JOB_WAITS : JOB_RAN;
}

/* ---- the checkpoint ---- */

static enum job_result checkpoint_begin(struct world *w, struct checkpointer *k)
{
    bool idle = w->activator.state == ACTIVATOR_DONE && !w->quiet &&
                core_checkpoint_possible(w->core) &&
                rng_chance(&w->rng, w->setup.drain_percent);
    int r;

    if (!k->asked && (core_aborted(w->core) || w->activator.state != ACTIVATOR_DONE))
        return JOB_WAITS;
    if (!k->asked && !idle &&
        !(core_checkpoint_wanted(w->core) && rng_chance(&w->rng, w->setup.eager_percent)))
        return JOB_WAITS;
    r = core_checkpoint_begin(w->core, k->clean);
    story(w, "checkpoint begins%s", k->clean ? " (clean stop)" : "");
    k->asked = false;
    k->error = r;
    if (r == 0)
        k->state = CHECKPOINTER_NEXT;
    return JOB_RAN;
}

static void checkpoint_finished(struct world *w, struct checkpointer *k, int error)
{
    story(w, "checkpoint ends: %s", error == 0 ? "done" : strerror(-error));
    k->error = error;
    k->state = CHECKPOINTER_IDLE;
    if (error == 0)
        w->counts->checkpoints++;
}

static enum job_result checkpoint_next(struct world *w, struct checkpointer *k)
{
    struct checkpoint_step *step = &k->step;
    int r = core_checkpoint_next(w->core, step, w->event);

    if (r == -EBUSY)
        return JOB_WAITS;
    if (r < 0) {
        checkpoint_finished(w, k, r);
        return JOB_RAN;
    }
    k->step_out = step->kind != STEP_DONE;
    k->error = 0;
    switch (step->kind) {
    case STEP_COMMIT:
        k->state = CHECKPOINTER_COMMIT;
        sync_job_start_all(&k->sync);
        break;
    case STEP_READERS:
        k->state = CHECKPOINTER_READERS;
        break;
    case STEP_COPY:
        k->state = CHECKPOINTER_READ;
        k->segment = 0;
        break;
    case STEP_FLUSH_IMAGE:
        k->state = CHECKPOINTER_FLUSH;
        image_job_start_once(&k->flush, world_image_number(w, step->image));
        break;
    case STEP_LOAD:
    case STEP_RETIRE:
        k->state = CHECKPOINTER_END;
        break;
    case STEP_SUPER:
        k->state = CHECKPOINTER_SUPER;
        super_job_start(w, &k->super, &step->super);
        break;
    case STEP_CARRY:
        k->state = CHECKPOINTER_CARRY_READ;
        break;
    case STEP_DONE:
        checkpoint_finished(w, k, step->error);
        break;
    }
    return JOB_RAN;
}

/* Reads a group of segments at once, as an engine that coalesces would. */
static void checkpoint_read(struct world *w, struct checkpointer *k)
{
    const struct checkpoint_step *step = &k->step;
    size_t left = step->count - k->segment;

    k->group_end = k->segment + rng_range(&w->rng, 1, left);
    for (size_t i = k->segment; i < k->group_end; i++) {
        const struct checkpoint_segment *s = &step->segments[i];

        if (s->source == READ_JOURNAL)
            world_ring_read(w, s->position, k->bytes + s->offset, s->length);
    }
    k->state = CHECKPOINTER_WRITE;
    k->write.count = 0;
}

static enum job_result checkpoint_write(struct world *w, struct checkpointer *k)
{
    const struct checkpoint_step *step = &k->step;
    const struct checkpoint_segment *s = &step->segments[k->segment];
    struct disk *disk = &w->images[world_image_number(w, step->image)];

    if (k->write.count == 0)
        write_job_start(&k->write, disk, s->offset,
                        s->source == READ_JOURNAL ? k->bytes + s->offset : NULL, s->length);
    if (write_job_step(w, &k->write) == JOB_RAN)
        return JOB_RAN;
    k->error = k->write.error;
    k->write.count = 0;
    k->segment++;
    if (k->error == 0 && k->segment == step->count && step->barrier) {
        image_job_start_once(&k->flush, world_image_number(w, step->image));
        k->state = CHECKPOINTER_WRITTEN;
    } else if (k->error != 0 || k->segment == step->count)
        k->state = CHECKPOINTER_END;
    else if (k->segment == k->group_end)
        k->state = CHECKPOINTER_READ;
    return JOB_RAN;
}

static enum job_result checkpoint_ended(struct checkpointer *k, int error)
{
    k->error = error;
    k->state = CHECKPOINTER_END;
    return JOB_RAN;
}

/* What a sick image can't take is appended again. */
static enum job_result checkpoint_carry_begin(struct world *w, struct checkpointer *k)
{
    const struct checkpoint_segment *s = &k->step.segments[0];
    const uint8_t *bytes = k->bytes + s->offset;
    bool payload = s->source == READ_JOURNAL;
    int r = core_carry_begin(w->core, &k->step, &k->carried,
                             payload ? format_sum(w->sum_seed, bytes, s->length) : 0, w->event);

    if (r == -EAGAIN)
        return core_aborted(w->core) ? checkpoint_ended(k, -EIO) : JOB_WAITS;
    if (r != 0)
        return checkpoint_ended(k, r < 0 ? r : 0);
    story(w, "carries [%llu, +%llu) of image %u as record %llu", (unsigned long long)s->offset,
          (unsigned long long)s->length, world_image_number(w, k->step.image),
          (unsigned long long)k->carried.record.lsn);
    append_job_start(w, &k->append, &k->carried, payload ? bytes : NULL);
    w->counts->carried++;
    k->state = CHECKPOINTER_CARRY_COPY;
    return JOB_RAN;
}

/* Whoever publishes submits. */
static enum job_result checkpoint_carried(struct world *w, struct checkpointer *k)
{
    uint64_t from, to;

    if (!core_submit_begin(w->core, &from, &to))
        return checkpoint_ended(k, k->append.error);
    submit_job_start(w, &k->submit, from, to);
    k->state = CHECKPOINTER_CARRY_SUBMIT;
    return JOB_RAN;
}

static void checkpoint_step_end(struct world *w, struct checkpointer *k)
{
    k->step.took_us = rng_below(&w->rng, 100000);
    core_checkpoint_step_end(w->core, &k->step, k->error);
    k->step_out = false;
    k->state = CHECKPOINTER_NEXT; /* an image that fails is left out, an abort is told there */
}

/* A job of the step took a step. */
static enum job_result checkpoint_stepped(struct checkpointer *k, enum job_result r, int error)
{
    if (r != JOB_DONE)
        return r;
    k->error = error;
    k->state = CHECKPOINTER_END;
    return JOB_RAN;
}

enum job_result checkpointer_step(struct world *w)
{
    struct checkpointer *k = &w->checkpointer;
    enum job_result r;

    switch (k->state) {
    case CHECKPOINTER_IDLE:
        return checkpoint_begin(w, k);
    case CHECKPOINTER_NEXT:
        return checkpoint_next(w, k);
    case CHECKPOINTER_COMMIT:
        r = sync_job_step(w, &k->sync);
        return checkpoint_stepped(k, r, k->sync.error);
    case CHECKPOINTER_READERS:
        if (!core_checkpoint_readers_gone(w->core) && !core_aborted(w->core))
            return JOB_WAITS;
        k->state = CHECKPOINTER_END;
        return JOB_RAN;
    case CHECKPOINTER_READ:
        checkpoint_read(w, k);
        return JOB_RAN;
    case CHECKPOINTER_WRITE:
        return checkpoint_write(w, k);
    case CHECKPOINTER_WRITTEN:
        r = image_job_step(w, &k->flush);
        return checkpoint_stepped(k, r, k->flush.error);
    case CHECKPOINTER_CARRY_READ:
        if (k->step.segments[0].source == READ_JOURNAL)
            world_ring_read(w, k->step.segments[0].position,
                            k->bytes + k->step.segments[0].offset, k->step.segments[0].length);
        k->state = CHECKPOINTER_CARRY_BEGIN;
        return JOB_RAN;
    case CHECKPOINTER_CARRY_BEGIN:
        return checkpoint_carry_begin(w, k);
    case CHECKPOINTER_CARRY_COPY:
        r = append_job_step(w, &k->append);
        return r == JOB_DONE ? checkpoint_carried(w, k) : r;
    case CHECKPOINTER_CARRY_SUBMIT:
        if (submit_job_step(w, &k->submit) != JOB_DONE)
            return JOB_RAN;
        k->submit.active = false;
        core_submit_end(w->core, k->submit.error);
        return checkpoint_carried(w, k);
    case CHECKPOINTER_FLUSH:
        r = image_job_step(w, &k->flush);
        return checkpoint_stepped(k, r, k->flush.error);
    case CHECKPOINTER_SUPER:
        r = super_job_step(w, &k->super);
        if (r == JOB_DONE && k->super.error == 0 && k->step.super.clean)
            w->stopped_clean = true;
        return checkpoint_stepped(k, r, k->super.error);
    case CHECKPOINTER_END:
        checkpoint_step_end(w, k);
        return JOB_RAN;
    }
    return JOB_WAITS;
}

void checkpointer_abandon(struct world *w)
{
    struct checkpointer *k = &w->checkpointer;

    sync_job_abandon(w, &k->sync);
    append_job_abandon(w, &k->append);
    if (k->submit.active)
        core_submit_end(w->core, -EIO);
    k->submit.active = false;
    if (k->step_out)
        core_checkpoint_step_end(w->core, &k->step, -EIO);
    k->step_out = k->asked = k->clean = false;
    k->flush.state = IMAGE_JOB_NONE;
    k->state = CHECKPOINTER_IDLE;
}

/* ---- prewriting the ring ---- */

enum job_result prewriter_step(struct world *w)
{
    struct prewriter *p = &w->prewriter;
    uint64_t from, count;

    if (!p->active) {
        if (w->activator.state != ACTIVATOR_DONE ||
            !rng_chance(&w->rng, w->setup.prewrite_percent) ||
            !core_prewrite_begin(w->core, w->setup.sector_bytes * rng_range(&w->rng, 1, 8),
                                 &from, &count))
            return JOB_WAITS;
        story(w, "prewrites [%llu, %llu)", (unsigned long long)from,
              (unsigned long long)(from + count));
        write_job_start(&p->write, &w->journal, world_ring_at(w, from), NULL, count);
        p->active = true;
        return JOB_RAN;
    }
    if (write_job_step(w, &p->write) == JOB_DONE) {
        core_prewrite_end(w->core, p->write.error);
        p->active = false;
    }
    return JOB_RAN;
}

void prewriter_abandon(struct world *w)
{
    if (w->prewriter.active)
        core_prewrite_end(w->core, -EIO);
    w->prewriter.active = false;
}

/* ---- the first writable open ---- */

static enum job_result activate_super(struct world *w, struct activator *a)
{
    enum job_result r = super_job_step(w, &a->super);

    if (r != JOB_DONE)
        return r;
    core_super_end(w->core, &a->plan, a->super.error);
    a->plan_out = false;
    a->state = a->super.error != 0 ? ACTIVATOR_FAILED
               : w->tool           ? ACTIVATOR_DONE
                                   : ACTIVATOR_EPOCH;
    return JOB_RAN;
}

/* As long as the ring may hold data of an image, its identity is checked. */
static void enter_images(struct world *w)
{
    int error = 0;

    for (unsigned i = 0; i < w->setup.image_count; i++) {
        struct image_entry entry = *core_image_entry(w->core_images[i]);

        entry.flags |= IMAGE_FLAG_PENDING;
        if (w->setup.bypass_bytes != 0)
            entry.flags |= IMAGE_FLAG_BYPASS;
        if (core_image_add(w->core, &entry, &error) != w->core_images[i])
            world_fail(w, "plan", NULL, "core_image_add of a known image: %s",
                       strerror(-error));
    }
}

/* What a dead server has staged and not submitted is written up to the cut, from `at` on, a piece of
 * the ring at a time.  False: all of it is. */
static bool settle_begin(struct world *w, struct activator *a, uint64_t at)
{
    struct core_stats stats;
    uint64_t count;

    core_stats_get(w->core, &stats);
    if (!w->shm.exists || at >= stats.head_position)
        return false;
    count = stats.head_position - at;
    if (count > w->setup.ring_bytes - at % w->setup.ring_bytes)
        count = w->setup.ring_bytes - at % w->setup.ring_bytes;
    if (count > w->shm.bytes)
        count = w->shm.bytes;
    free(a->settle_bytes);
    a->settle_bytes = memory_get(count);
    a->settle_end = at + count;
    shm_slots_read(&w->shm, at, a->settle_bytes, count);
    write_job_start(&a->settle, &w->journal, world_ring_at(w, at), a->settle_bytes, count);
    a->state = ACTIVATOR_SETTLE;
    return true;
}

static enum job_result activate_settle(struct world *w, struct activator *a)
{
    if (write_job_step(w, &a->settle) != JOB_DONE)
        return JOB_RAN;
    a->state = ACTIVATOR_BARRIER;
    if (a->settle.error != 0)
        a->state = ACTIVATOR_FAILED;
    else
        settle_begin(w, a, a->settle_end); /* it may go on at the ring's start */
    return JOB_RAN;
}

/* The old staging is on the disk, durably: a new one, before the superblock that says so. */
static void begin_staging(struct world *w)
{
    uint8_t boot[FORMAT_UUID_BYTES] = {0};
    struct core_stats stats;

    core_stats_get(w->core, &stats);
    if (w->setup.staging_bytes == 0)
        return;
    shm_begin(&w->shm, w->setup.staging_bytes, w->setup.ring_bytes, w->boot, stats.epoch + 1,
              stats.head_position);
    boot[0] = w->boot;
    core_staging_set(w->core, w->shm.bytes, boot, 0);
}

static enum job_result activate_barrier(struct world *w, struct activator *a)
{
    enum job_result stepped = barrier_job_step(w, &a->barrier);
    int r;

    if (stepped != JOB_DONE)
        return stepped;
    a->state = ACTIVATOR_FAILED;
    if (a->barrier.error != 0)
        return JOB_RAN;
    begin_staging(w);
    enter_images(w);
    r = core_activate(w->core, w->event, &a->plan);
    if (r < 0) {
        world_fail(w, "plan", NULL, "core_activate: %s", strerror(-r));
        return JOB_RAN;
    }
    a->plan_out = true;
    super_job_start(w, &a->super, &a->plan);
    a->state = ACTIVATOR_SUPER;
    return JOB_RAN;
}

static enum job_result activate_epoch(struct world *w, struct activator *a)
{
    int r = core_epoch_begin(w->core, &a->record, w->event);

    if (r == -EAGAIN) {
        story(w, "no room for the EPOCH record");
        a->state = ACTIVATOR_CHECKPOINT;
        w->checkpointer.asked = true;
        w->counts->epoch_checkpoints++;
    } else if (r < 0) {
        a->state = ACTIVATOR_FAILED;
    } else {
        story(w, "EPOCH record, lsn %llu at %llu", (unsigned long long)a->record.record.lsn,
              (unsigned long long)a->record.record.position);
        append_job_start(w, &a->append, &a->record, NULL);
        a->state = ACTIVATOR_APPEND;
    }
    return JOB_RAN;
}

enum job_result activator_step(struct world *w)
{
    struct activator *a = &w->activator;
    struct checkpointer *k = &w->checkpointer;

    switch (a->state) {
    case ACTIVATOR_WAIT:
        if (!rng_chance(&w->rng, 30))
            return JOB_WAITS;
        story(w, "first writable open");
        barrier_job_start(&a->barrier, &w->journal);
        if (!settle_begin(w, a, w->shm.submitted))
            a->state = ACTIVATOR_BARRIER;
        return JOB_RAN;
    case ACTIVATOR_SETTLE:
        return activate_settle(w, a);
    case ACTIVATOR_BARRIER:
        return activate_barrier(w, a);
    case ACTIVATOR_SUPER:
        return activate_super(w, a);
    case ACTIVATOR_EPOCH:
        return activate_epoch(w, a);
    case ACTIVATOR_CHECKPOINT:
        if (k->asked || k->state != CHECKPOINTER_IDLE)
            return JOB_WAITS;
        if (core_aborted(w->core))
            a->state = ACTIVATOR_FAILED;
        else if (k->error != 0)
            k->asked = true; /* an image failed: once more */
        else
            a->state = ACTIVATOR_EPOCH;
        return JOB_RAN;
    case ACTIVATOR_APPEND:
        switch (append_job_step(w, &a->append)) {
        case JOB_WAITS:
            return JOB_WAITS;
        case JOB_DONE:
            a->state = a->append.error == 0 ? ACTIVATOR_DONE : ACTIVATOR_FAILED;
            w->counts->activations += a->append.error == 0;
            break;
        case JOB_RAN:
            break;
        }
        return JOB_RAN;
    case ACTIVATOR_DONE:
    case ACTIVATOR_FAILED:
        break;
    }
    return JOB_WAITS;
}

void activator_abandon(struct world *w)
{
    struct activator *a = &w->activator;

    if (a->plan_out)
        core_super_end(w->core, &a->plan, -EIO);
    a->plan_out = false;
    append_job_abandon(w, &a->append);
    a->state = ACTIVATOR_WAIT;
}

/* ---- the clean stop ---- */

/* Most checkpoints that a stop may need: with no client left the first one drains all. */
#define STOP_ROUNDS_MAX 8

static bool all_quiet(const struct world *w)
{
    for (unsigned i = 0; i < w->setup.client_count; i++) {
        if (w->clients[i].state != CLIENT_IDLE)
            return false;
    }
    return w->committer.state == SYNC_JOB_NONE && w->image_flusher.state == IMAGE_JOB_NONE &&
           w->checkpointer.state == CHECKPOINTER_IDLE && !w->prewriter.active;
}

static void stop_drain(struct world *w)
{
    w->stopper.state = STOPPER_DRAIN;
    w->checkpointer.asked = w->checkpointer.clean = true;
}

enum job_result stopper_step(struct world *w)
{
    struct stopper *s = &w->stopper;
    struct checkpointer *k = &w->checkpointer;
    uint64_t target;

    switch (s->state) {
    case STOPPER_QUIET:
        if (!all_quiet(w))
            return JOB_WAITS;
        target = core_commit_all_target(w->core);
        s->state = STOPPER_SYNC;
        if (target != 0)
            sync_job_start(&s->sync, target);
        else
            stop_drain(w);
        return JOB_RAN;
    case STOPPER_SYNC:
        switch (sync_job_step(w, &s->sync)) {
        case JOB_WAITS:
            return JOB_WAITS;
        case JOB_DONE:
            stop_drain(w);
            break;
        case JOB_RAN:
            break;
        }
        return JOB_RAN;
    case STOPPER_DRAIN:
        if (k->asked || k->state != CHECKPOINTER_IDLE)
            return JOB_WAITS;
        s->state = STOPPER_DONE;
        if (k->error != 0 && !core_aborted(w->core) && ++s->rounds < STOP_ROUNDS_MAX)
            stop_drain(w);
        return JOB_RAN;
    case STOPPER_NONE:
    case STOPPER_DONE:
        break;
    }
    return JOB_WAITS;
}
