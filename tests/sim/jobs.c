/* jobs: I/O in pieces, and what several actors do.  See world.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "memory.h"
#include "world.h"

size_t world_ring_at(const struct world *w, uint64_t position)
{
    return w->ring_start + position % w->setup.ring_bytes;
}

void world_ring_read(const struct world *w, uint64_t position, uint8_t *bytes, size_t count)
{
    if (w->shm.exists)
        shm_read(&w->shm, w->journal.cache + w->ring_start, position, bytes, count);
    else
        disk_read(&w->journal, world_ring_at(w, position), bytes, count);
}

/* P2: an lsn is never used twice, not even that of a record which a crash took back. */
void world_lsn_given(struct world *w, uint64_t lsn)
{
    if (lsn <= w->lsn_max)
        world_fail(w, "P2", NULL, "lsn %llu was given, though %llu had been given before",
                   (unsigned long long)lsn, (unsigned long long)w->lsn_max);
    else
        w->lsn_max = lsn;
}

/* ---- I/O ---- */

static bool fault_now(struct world *w, const struct disk *disk, bool barrier)
{
    bool journal = disk == &w->journal;
    bool sick = w->setup.fault == FAULT_IMAGE_SICK && disk == &w->images[w->sick_image] &&
                w->event >= w->sick_from && w->event < w->sick_to;
    enum fault_kind kind = journal   ? barrier ? FAULT_JOURNAL_BARRIER : FAULT_JOURNAL_WRITE
                           : barrier ? FAULT_IMAGE_BARRIER
                                     : FAULT_IMAGE_WRITE;

    if (sick) {
        w->had_fault = true;
        w->counts->faults++;
        return true;
    }
    if (w->setup.fault != kind || w->fault_countdown == 0 || --w->fault_countdown > 0)
        return false;
    w->counts->faults++;
    w->had_fault = true;
    if (w->fault_repeats)
        w->fault_countdown = rng_range(&w->rng, 1, 4);
    return true;
}

/* 0 or -errno.  NULL: zeroes. */
static int io_write(struct world *w, struct disk *disk, size_t offset, const uint8_t *bytes,
                    size_t count)
{
    bool fault = fault_now(w, disk, false);
    int error;

    if (offset > disk->size || count > disk->size - offset) {
        world_fail(w, "plan", NULL, "a write of [%zu, %zu) goes beyond the end of the %s",
                   offset, offset + count, disk->name);
        return -EIO;
    }

    error = io_fault_write(w, disk, &count);
    if (fault) /* a part of it may have been written */
        count = rng_below(&w->rng, count + 1);
    if (count > 0) {
        if (bytes != NULL)
            disk_write(disk, offset, bytes, count);
        else
            disk_zero(disk, offset, count);
        w->touched = true;
    }
    if (!fault && error == 0)
        return 0;
    story(w, "a write to the %s fails", disk->name);
    if (error != 0)
        return error;
    if (disk == &w->journal)
        return -EIO;
    return rng_chance(&w->rng, 50) ? -ENOSPC : -EIO;
}

void write_job_start(struct write_job *job, struct disk *disk, size_t offset,
                     const uint8_t *bytes, size_t count)
{
    *job = (struct write_job){.disk = disk, .offset = offset, .bytes = bytes, .count = count};
}

enum job_result write_job_step(struct world *w, struct write_job *job)
{
    size_t count = job->count - job->done;

    if (count > 1 && rng_chance(&w->rng, 30))
        count = rng_range(&w->rng, 1, count - 1);
    story(w, "  writes [%zu, %zu) of the %s%s", job->offset + job->done,
          job->offset + job->done + count, job->disk->name,
          job->bytes == NULL ? " with zeroes" : "");
    if (job->staged) { /* memory that outlives the process: nothing to fail */
        if (job->done == 0 && !shm_claim(&w->shm, job->position + job->count))
            world_fail(w, "plan", NULL, "record at %llu leaves no room in staging",
                       (unsigned long long)job->position);
        shm_write(&w->shm, job->position + job->done, job->bytes + job->done, count);
        w->touched = true;
    } else {
        job->error = io_write(w, job->disk, job->offset + job->done,
                              job->bytes != NULL ? job->bytes + job->done : NULL, count);
    }
    job->done += count;
    return job->error != 0 || job->done == job->count ? JOB_DONE : JOB_RAN;
}

/* ---- barriers ---- */

void barrier_job_start(struct barrier_job *job, struct disk *disk)
{
    *job = (struct barrier_job){.disk = disk};
}

/* The kernel tells one of those who wait of a failed writeback: so the engine has one barrier of
 * the journal at a time. */
static enum job_result barrier_begin(struct world *w, struct barrier_job *job)
{
    if (job->disk == &w->journal) {
        if (w->journal_barrier != NULL)
            return JOB_WAITS;
        if (core_aborted(w->core)) {
            job->error = -EIO;
            return JOB_DONE;
        }
        w->journal_barrier = job;
    }
    job->begun = true;
    job->covered = disk_barrier_begin(job->disk);
    story(w, "  barrier of the %s begins", job->disk->name);
    return JOB_RAN;
}

static unsigned image_number_of(const struct world *w, const struct disk *disk)
{
    unsigned image = 0;

    while (disk != &w->images[image])
        image++;
    return image;
}

enum job_result barrier_job_step(struct world *w, struct barrier_job *job)
{
    bool journal = job->disk == &w->journal;

    if (!job->begun)
        return barrier_begin(w, job);
    if (job->untold)
        return JOB_DONE;
    if (journal)
        w->journal_barrier = NULL;
    job->error = io_fault_barrier(w, job->disk);
    if (job->error == 0 && fault_now(w, job->disk, true))
        job->error = -EIO;
    if (job->error == 0) {
        disk_barrier_end(job->disk, job->covered);
        story(w, "  barrier of the %s ends", job->disk->name);
        return JOB_DONE;
    }
    disk_barrier_fail(job->disk, job->covered, &w->rng);
    w->touched = true;
    if (journal) {
        model_cache_lost(&w->model);
        core_abort(w->core, job->error);
    }
    story(w, "  barrier of the %s fails", job->disk->name);
    if (journal)
        return JOB_DONE;
    /* Another barrier of this image may have ended well and tell of it first. */
    model_image_barrier(&w->model, image_number_of(w, job->disk), 0, false);
    job->untold = true;
    return JOB_RAN;
}

/* ---- a record ---- */

static void append_piece(struct world *w, struct append_job *job, uint64_t position,
                         const uint8_t *bytes, size_t count)
{
    struct write_job *piece = &job->pieces[job->piece_count];

    if (count == 0)
        return;
    write_job_start(piece, &w->journal, world_ring_at(w, position), bytes, count);
    piece->staged = w->shm.exists;
    piece->position = position;
    job->piece_count++;
}

void append_job_start(struct world *w, struct append_job *job, struct append *a,
                      const uint8_t *payload)
{
    const struct record *r = &a->record;
    bool payload_first = rng_chance(&w->rng, 30);

    *job = (struct append_job){.state = APPEND_JOB_COPY, .append = a};
    if (a->has_pad) {
        append_piece(w, job, a->pad_position, a->pad_header, FORMAT_RECORD_BYTES);
        w->counts->pads++;
    }
    if (payload_first)
        append_piece(w, job, r->position + FORMAT_RECORD_BYTES, payload, r->payload_bytes);
    append_piece(w, job, r->position, a->header, FORMAT_RECORD_BYTES);
    if (!payload_first)
        append_piece(w, job, r->position + FORMAT_RECORD_BYTES, payload, r->payload_bytes);
    world_lsn_given(w, r->lsn);
}

static void append_copy(struct world *w, struct append_job *job)
{
    struct write_job *piece = &job->pieces[job->piece];

    if (write_job_step(w, piece) == JOB_RAN)
        return;
    job->error = piece->error;
    job->piece++;
    if (job->error != 0 || job->piece == job->piece_count)
        job->state = APPEND_JOB_COPIED;
}

enum job_result append_job_step(struct world *w, struct append_job *job)
{
    switch (job->state) {
    case APPEND_JOB_COPY:
        append_copy(w, job);
        return JOB_RAN;
    case APPEND_JOB_COPIED:
        story(w, "  record %llu is copied", (unsigned long long)job->append->record.lsn);
        core_append_copied(w->core, job->append, job->error);
        job->state = APPEND_JOB_WAIT;
        return JOB_RAN;
    case APPEND_JOB_WAIT:
        if (job->append->state == APPEND_PUBLISHED || job->append->state == APPEND_FAILED) {
            job->error = job->append->state == APPEND_FAILED ? -EIO : 0;
            job->state = APPEND_JOB_NONE;
            return JOB_DONE;
        }
        return JOB_WAITS;
    case APPEND_JOB_NONE:
        break;
    }
    assert(!"no record is on its way");
    return JOB_DONE;
}

void append_job_abandon(struct world *w, struct append_job *job)
{
    if (job->state != APPEND_JOB_NONE && job->append->state == APPEND_ADMITTED)
        core_append_copied(w->core, job->append, -EIO);
    job->state = APPEND_JOB_NONE;
}

/* ---- a superblock ---- */

void super_job_start(struct world *w, struct super_job *job, const struct super_plan *plan)
{
    job->state = SUPER_JOB_WRITE;
    job->error = 0;
    write_job_start(&job->write, &w->journal, plan->offset, plan->bytes, plan->bytes_count);
    barrier_job_start(&job->barrier, &w->journal);
    story(w, "  superblock, generation %llu, tail at %llu (lsn %llu)%s",
          (unsigned long long)plan->generation, (unsigned long long)plan->tail.position,
          (unsigned long long)plan->tail.lsn, plan->clean ? ", clean" : "");
}

enum job_result super_job_step(struct world *w, struct super_job *job)
{
    enum job_result r;

    if (job->state == SUPER_JOB_WRITE) {
        if (write_job_step(w, &job->write) == JOB_RAN)
            return JOB_RAN;
        job->error = job->write.error;
        job->state = SUPER_JOB_BARRIER;
        return job->error != 0 ? JOB_DONE : JOB_RAN;
    }
    r = barrier_job_step(w, &job->barrier);
    job->error = job->barrier.error;
    return r;
}

/* ---- submission: staged records go to the disk ---- */

void submit_job_start(struct world *w, struct submit_job *job, uint64_t from, uint64_t to)
{
    bool whole = from % w->setup.sector_bytes == 0 && to % w->setup.sector_bytes == 0;

    if (w->shm.exists && w->shm.submitted == w->gap_from && from == w->gap_to)
        w->shm.submitted = from; /* there is nothing in a gap */

    /* Direct I/O wants whole sectors, in order; a hint does not care. */
    if (from >= to || world_ring_at(w, from) + (to - from) > w->journal.size ||
        (w->shm.exists && (!whole || from != w->shm.submitted)))
        world_fail(w, "plan", NULL, "submit of [%llu, %llu)", (unsigned long long)from,
                   (unsigned long long)to);
    *job = (struct submit_job){.active = true, .at = from, .end = to};
    story(w, "  submits [%llu, %llu)", (unsigned long long)from, (unsigned long long)to);
}

/* DONE: core_submit_end is due. */
enum job_result submit_job_step(struct world *w, struct submit_job *job)
{
    size_t count = job->end - job->at, unit = w->setup.sector_bytes;
    uint8_t *bytes;

    if (!w->shm.exists) /* a hint: nothing is durable by it */
        return JOB_DONE;
    if (count > unit && rng_chance(&w->rng, 30))
        count = unit * rng_range(&w->rng, 1, count / unit - 1);
    bytes = memory_get(count);
    shm_slots_read(&w->shm, job->at, bytes, count);
    job->error = io_write(w, &w->journal, world_ring_at(w, job->at), bytes, count);
    free(bytes);
    if (job->error != 0)
        return JOB_DONE;
    job->at += count;
    w->shm.submitted = job->at;
    return job->at == job->end ? JOB_DONE : JOB_RAN;
}

/* ---- durability ---- */

void sync_job_start(struct sync_job *job, uint64_t target)
{
    *job = (struct sync_job){.state = SYNC_JOB_WAIT, .target = target};
}

void sync_job_start_all(struct sync_job *job)
{
    *job = (struct sync_job){.state = SYNC_JOB_WAIT, .all = true};
}

static enum job_result sync_finish(struct sync_job *job, int error)
{
    job->state = SYNC_JOB_NONE;
    job->error = error;
    return JOB_DONE;
}

/* Durable, or a commit to lead, or neither. */
static enum job_result sync_wait(struct world *w, struct sync_job *job)
{
    int r;

    if (job->all && job->followed != 0 && job->followed <= w->commits_ended)
        return sync_finish(job, core_aborted(w->core) ? -EIO : 0);
    r = job->all ? -EAGAIN : core_durable_check(w->core, job->target);
    if (r != -EAGAIN)
        return sync_finish(job, r);
    r = core_commit_begin(w->core, &job->commit, w->event);
    if (r == -EBUSY) {
        if (job->followed == 0)
            job->followed = w->commits_ended + 1;
        return JOB_WAITS;
    }
    if (r != 0)
        return sync_finish(job, job->all && r == 1 ? 0 : -EIO);
    if (w->shm.exists && w->shm.submitted == w->gap_from)
        w->shm.submitted = w->gap_to; /* of the commit before */
    w->gap_to = job->commit.mark.position;
    w->gap_from = w->gap_to - job->commit.gap_bytes;
    story(w, "  leads a commit up to lsn %llu%s, leaves out %llu",
          (unsigned long long)job->commit.target_lsn, job->commit.has_seal ? ", sealed" : "",
          (unsigned long long)job->commit.gap_bytes);
    job->state = SYNC_JOB_READY;
    if (job->commit.has_seal) {
        job->state = SYNC_JOB_SEAL;
        append_job_start(w, &job->seal, &job->commit.seal, NULL);
    }
    return JOB_RAN;
}

/* Under one hold of the lock: is there more to submit before the barrier? */
static void sync_submit_next(struct world *w, struct sync_job *job)
{
    uint64_t from, to;

    if (core_commit_submit(w->core, &job->commit, &from, &to)) {
        submit_job_start(w, &job->submit, from, to);
        job->state = SYNC_JOB_SUBMIT;
    } else {
        barrier_job_start(&job->barrier, &w->journal);
        job->state = SYNC_JOB_BARRIER;
    }
}

static enum job_result sync_end(struct world *w, struct sync_job *job)
{
    int error = job->barrier.error;

    /* Of a disk that turns, and of one that does not, in turns. */
    job->commit.took_us =
        w->gap_bytes > 0 || w->life % 3 == 0 ? rng_below(&w->rng, 2000) : 9000;
    w->gap_bytes = job->commit.gap_bytes;
    w->counts->gaps += job->commit.gap_bytes > 0;
    core_commit_end(w->core, &job->commit, error);
    w->commits_ended++;
    w->counts->commits += error == 0;
    story(w, "  commit ended, durable lsn %llu", (unsigned long long)core_durable_lsn(w->core));
    job->state = SYNC_JOB_WAIT;
    if (job->all || error != 0)
        return sync_finish(job, error);
    return JOB_RAN;
}

enum job_result sync_job_step(struct world *w, struct sync_job *job)
{
    switch (job->state) {
    case SYNC_JOB_WAIT:
        return sync_wait(w, job);
    case SYNC_JOB_SEAL:
        append_job_step(w, &job->seal);
        if (job->seal.state == APPEND_JOB_WAIT)
            job->state = SYNC_JOB_READY;
        return JOB_RAN;
    case SYNC_JOB_READY:
        if (!core_commit_ready(w->core, &job->commit))
            return JOB_WAITS;
        sync_submit_next(w, job);
        return JOB_RAN;
    case SYNC_JOB_SUBMIT:
        if (submit_job_step(w, &job->submit) == JOB_DONE) {
            job->submit.active = false;
            core_submit_end(w->core, job->submit.error);
            sync_submit_next(w, job);
        }
        return JOB_RAN;
    case SYNC_JOB_BARRIER:
        switch (barrier_job_step(w, &job->barrier)) {
        case JOB_WAITS:
            return JOB_WAITS;
        case JOB_DONE:
            job->state = SYNC_JOB_END;
            break;
        case JOB_RAN:
            break;
        }
        return JOB_RAN;
    case SYNC_JOB_END:
        return sync_end(w, job);
    case SYNC_JOB_NONE:
        break;
    }
    assert(!"nothing to wait for");
    return JOB_DONE;
}

void sync_job_abandon(struct world *w, struct sync_job *job)
{
    if (job->state == SYNC_JOB_SEAL)
        append_job_abandon(w, &job->seal);
    if (job->state == SYNC_JOB_SUBMIT)
        core_submit_end(w->core, -EIO);
    if (job->state != SYNC_JOB_NONE && job->state != SYNC_JOB_WAIT)
        core_commit_end(w->core, &job->commit, -EIO);
    job->state = SYNC_JOB_NONE;
}

/* ---- barriers of images ---- */

void image_job_start(struct world *w, struct image_job *job, unsigned image, uint64_t target)
{
    (void)w;
    *job = (struct image_job){.state = IMAGE_JOB_WAIT, .image = image, .target = target};
}

void image_job_start_once(struct image_job *job, unsigned image)
{
    *job = (struct image_job){.state = IMAGE_JOB_WAIT, .image = image, .once = true};
}

static enum job_result image_job_done(struct image_job *job, int error)
{
    job->state = IMAGE_JOB_NONE;
    job->error = error;
    return JOB_DONE;
}

static enum job_result image_job_wait(struct world *w, struct image_job *job)
{
    struct core_image *image = w->core_images[job->image];
    int r = job->once ? -EAGAIN : core_image_flush_check(image, job->target);

    if (r != -EAGAIN)
        return image_job_done(job, r);
    if (core_image_flush_begin(image, &job->covers) == -EBUSY)
        return JOB_WAITS;
    barrier_job_start(&job->barrier, &w->images[job->image]);
    job->begun = w->model.stamp;
    job->state = IMAGE_JOB_BARRIER;
    return JOB_RAN;
}

enum job_result image_job_step(struct world *w, struct image_job *job)
{
    struct core_image *image = w->core_images[job->image];
    int error;

    if (job->state == IMAGE_JOB_WAIT)
        return image_job_wait(w, job);
    if (barrier_job_step(w, &job->barrier) != JOB_DONE)
        return JOB_RAN;
    error = job->barrier.error;
    core_image_flush_end(w->core, image, job->covers, error);
    /* If it failed, also about what was written since: nobody can tell. */
    model_image_barrier(&w->model, job->image, job->begun, error == 0);
    w->counts->image_flushes++;
    if (!w->known_lost[job->image] && w->model.image_lost[job->image] && error != 0) {
        w->known_lost[job->image] = true;
        w->counts->disks_lost++;
        story(w, "image %u is lost", job->image);
    }
    if (job->once)
        return image_job_done(job, error);
    job->state = IMAGE_JOB_WAIT;
    return JOB_RAN;
}
