/* checkpoint: durable versions go home to the image, then the tail moves.
 *
 *   1 COMMIT       everything admitted so far becomes durable; target = end of that commit.
 *                  Write-ahead rule: only what is durable goes home, so that the image never
 *                  holds what a crash may take back (P2).
 *   2 READERS      reads planned before now may be reading, from the image, what we will write
 *   3 LOAD         the part of the ring that will be copied is read, in its own order
 *   4 COPY         versions with lsn <= target, in image order, in steps
 *   5 FLUSH        the images that were written
 *   6 CARRY        what an image that fails can't take is appended again at the head, if others need
 *                  the space: one sick disk must not pin the ring for all (DESIGN 5.9)
 *   7 SUPERSEDING  versions that were replaced since 1 were not copied: the records that
 *                  replaced them must be durable before the tail passes the old ones
 *   8 RETIRE       the copied versions leave the map: reads take the image
 *   9 SUPER        the tail moves to target, durably; only then is the space free.  Where writes
 *                  bypass, in both superblocks (bypass.c)
 *
 * A crash anywhere before 9 is durable replays from the old tail, over an image that has only
 * durable data of records at or behind that tail: same result.  An error in 4 or 5 changes
 * nothing in the map, so the next attempt writes all of it again: what a failed image flush
 * covered is not trusted (P4).
 */
#include <assert.h>
#include <errno.h>

#include "core_state.h"

/* The ring is read in one go if so many of its bytes or fewer are read for one that is needed. */
#define LOAD_NEEDED 4

/* Map entries looked at in one step of RETIRE: bounds the time under the lock. */
#ifndef RETIRE_ENTRIES
#define RETIRE_ENTRIES 4096
#endif

int core_checkpoint_begin(struct core *c, bool clean)
{
    struct core_image *image;

    assert(c->life == CORE_RUNNING || c->life == CORE_ACTIVATED);
    if (c->error != 0)
        return -EIO;
    if (c->checkpoint.phase != CHECKPOINT_IDLE)
        return -EBUSY;
    c->checkpoint = (struct checkpoint){
        .phase = CHECKPOINT_COMMIT, .clean = clean, .awaited_lsn = c->last_lsn};
    TAILQ_FOREACH (image, &c->images, link)
        image->skip = false;
    return 0;
}

bool core_checkpoint_readers_gone(const struct core *c)
{
    const struct read_pin *oldest = TAILQ_FIRST(&c->pins);

    return oldest == NULL || oldest->number >= c->checkpoint.pin_limit;
}

/* -errno of an image that this checkpoint left out, 0 if there is none. */
static int skipped(const struct core *c)
{
    const struct core_image *image;

    TAILQ_FOREACH (image, &c->images, link) {
        if (image->skip)
            return image->failed;
    }
    return 0;
}

/* -errno of an image whose bypassed data is gone, 0 if there is none.  It is not complete. */
static int lost(const struct core *c)
{
    const struct core_image *image;

    TAILQ_FOREACH (image, &c->images, link) {
        if (image->lost != 0)
            return image->lost;
    }
    return 0;
}

static bool all_durable(const struct core *c)
{
    const struct core_image *image;

    TAILQ_FOREACH (image, &c->images, link) {
        if (image->lost != 0 || (core_image_has_undurable(image) &&
                                 !PLANTED(60))) /* CLEAN, without bypassed data */
            return false;
    }
    return true;
}

/* Of several images one that fails may not stop the others.  A single one has nobody to make room
 * for: its data stays where it is until it is well again, or the ring is full. */
static bool must_carry(const struct core *c)
{
    return skipped(c) != 0 && c->image_count > 1 && !c->checkpoint.clean &&
           (core_checkpoint_wanted(c) || c->pace.held);
}

/* There may be no room to carry all of it.  Then the tail goes a part of the way: as far as there
 * is room even if all of that were to be carried, or else the shortest way there is. */
static void shorten_target(struct core *c)
{
    struct checkpoint *k = &c->checkpoint;
    uint64_t room = c->tail.position + c->sb.ring_bytes - c->head;
    struct ring_mark target = k->target;

    if (target.position - c->tail.position <= room)
        return;
    for (unsigned i = 0; i < c->mark_count; i++) {
        const struct ring_mark *m = &c->marks[i];
        if (m->position < k->target.position &&
            (i == 0 || m->position - c->tail.position <= room))
            target = *m;
    }
    k->target = target;
}

static void first_image(struct core *c)
{
    c->checkpoint.image = TAILQ_FIRST(&c->images);
    c->checkpoint.cursor = 0;
}

static void next_image(struct core *c)
{
    c->checkpoint.image = TAILQ_NEXT(c->checkpoint.image, link);
    c->checkpoint.cursor = 0;
}

/* Versions go home in the order of the image.  In the ring they are scattered then, and a disk that
 * seeks would read them one by one, a seek each: so the part of the ring that they are in is read
 * beforehand, in one go.  Not if little of it is needed, nor what is staged (staging.h) and stays
 * so until it is copied. */
static void plan_load(struct core *c)
{
    struct checkpoint *k = &c->checkpoint;
    const struct core_image *image;
    uint64_t needed = 0;
    uint64_t staged_from = core_checkpoint_wanted(c) ? pace_head_then(c) : c->head;

    TAILQ_FOREACH (image, &c->images, link)
        needed += image->map.payload_bytes;
    k->load_from = c->tail.position;
    k->load_to = k->target.position;
    if (c->unsubmitted_max != 0) {
        staged_from = staged_from > c->unsubmitted_max ? staged_from - c->unsubmitted_max : 0;
        if (k->load_to > staged_from)
            k->load_to = staged_from;
    }
    if (k->load_to < k->load_from || needed < (k->load_to - k->load_from) / LOAD_NEEDED)
        k->load_to = k->load_from;
}

static bool load_next(struct core *c, struct checkpoint_step *step)
{
    struct checkpoint *k = &c->checkpoint;
    uint64_t ring = c->sb.ring_bytes, end = (k->load_from / ring + 1) * ring;

    if (k->load_from == k->load_to)
        return false;
    if (end > k->load_to)
        end = k->load_to;
    step->load_from = k->load_from;
    step->load_to = k->load_from + pace_load_size(c, end - k->load_from);
    return true;
}

/* The only way from phase to phase. */
static void enter(struct core *c, enum checkpoint_phase phase)
{
    struct checkpoint *k = &c->checkpoint;

    assert(phase == k->phase + 1 || phase == CHECKPOINT_IDLE);
    k->phase = phase;
    switch (phase) {
    case CHECKPOINT_READERS:
        k->target = c->durable;
        k->pin_limit = c->pin_next;
        break;
    case CHECKPOINT_LOAD:
        plan_load(c);
        pace_begin(c);
        break;
    case CHECKPOINT_FLUSH:
        pace_end(c);
        first_image(c);
        break;
    case CHECKPOINT_COPY:
    case CHECKPOINT_RETIRE:
        first_image(c);
        break;
    case CHECKPOINT_CARRY:
        k->carry = must_carry(c);
        if (k->carry)
            shorten_target(c);
        first_image(c);
        break;
    case CHECKPOINT_SUPERSEDING:
        k->awaited_lsn = c->published_lsn;
        break;
    case CHECKPOINT_SUPER:
        k->lost = k->clean ? lost(c) : 0;
        break;
    default:
        break;
    }
}

/* Fills the step with the next versions of k->image that go home.  False: none are left. */
static bool gather(struct core *c, struct checkpoint_step *step)
{
    struct checkpoint *k = &c->checkpoint;
    struct version *v = map_find(&k->image->map, k->cursor);
    uint64_t room = CHECKPOINT_BYTES;

    step->count = 0;
    for (; v != NULL && step->count < CHECKPOINT_SEGMENTS && room > 0; v = map_next(v)) {
        struct checkpoint_segment *s = &step->segments[step->count];
        uint64_t skip = k->cursor > v->offset ? k->cursor - v->offset : 0;

        if (v->lsn > k->target.lsn && !PLANTED(8)) /* what is not durable goes home */
            continue;
        s->offset = v->offset + skip;
        s->length = v->length - skip;
        s->position = 0;
        s->source = v->position == MAP_TRIM   ? READ_TRIMMED
                    : v->position == MAP_ZERO ? READ_ZERO
                                              : READ_JOURNAL;
        if (s->source == READ_JOURNAL) {
            s->position = v->position + skip;
            if (s->length > room)
                s->length = room;
        }
        if (!pace_step_takes(c, step, s))
            break;
        if (s->source == READ_JOURNAL)
            room -= s->length;
        k->cursor_next = s->offset + s->length;
        if (PLANTED(31)) /* the rest of one that was too long stays behind */
            k->cursor_next = v->offset + v->length;
        step->count++;
    }
    return step->count > 0;
}

/* Carried one at a time: each becomes a record. */
static void carry_first(struct core *c, struct checkpoint_step *step)
{
    struct checkpoint_segment *s = &step->segments[0];

    step->count = 1;
    if (s->source == READ_JOURNAL && s->length > core_atomic_max(c))
        s->length = core_atomic_max(c);
    c->checkpoint.carried_lsn = map_find(&step->image->map, s->offset)->lsn;
    c->checkpoint.cursor_next = s->offset; /* look again, unless it is carried */
}

static void pin_step(struct core *c)
{
    core_pin(c, &c->checkpoint.pin);
    c->checkpoint.pinned = true;
}

static void unpin_step(struct core *c)
{
    if (c->checkpoint.pinned)
        core_unpin(c, &c->checkpoint.pin);
    c->checkpoint.pinned = false;
}

static void healed(struct core_image *image)
{
    image->failed = 0;
    image->full = false;
}

/* True at the end of the image's map. */
static bool retire_some(struct core *c)
{
    struct checkpoint *k = &c->checkpoint;
    size_t before = c->pool.used;
    bool end = map_retire(&k->image->map, k->target.lsn, &k->cursor, RETIRE_ENTRIES);

    c->retired_nodes += before - c->pool.used;
    /* Never back: the target is nearer when one goes a part of the way, after one that left the tail
     * where it was. */
    if (k->target.lsn > c->retired_lsn)
        c->retired_lsn = k->target.lsn;
    if (k->target.lsn > k->image->retired_lsn)
        k->image->retired_lsn = k->target.lsn;
    return end;
}

/* A stop's checkpoint leaves the image complete, bypassed data included (P5). */
static bool must_flush(const struct checkpoint *k)
{
    return k->image->copied || (k->clean && core_image_has_undurable(k->image) && !PLANTED(60));
}

static bool bypassed(const struct core *c)
{
    const struct core_image *image;

    TAILQ_FOREACH (image, &c->images, link) {
        if (image->entry.flags & IMAGE_FLAG_BYPASS)
            return true;
    }
    return false;
}

/* One look at the running checkpoint: true if *step is to be carried out, false if a phase has
 * ended. */
static bool advance(struct core *c, struct checkpoint_step *step, uint64_t now_us)
{
    struct checkpoint *k = &c->checkpoint;
    bool drained, moved;

    switch (k->phase) {
    case CHECKPOINT_COMMIT:
        step->kind = STEP_COMMIT;
        if (c->durable.lsn < k->awaited_lsn)
            return true;
        break;
    case CHECKPOINT_READERS:
        step->kind = STEP_READERS;
        if (!core_checkpoint_readers_gone(c))
            return true;
        break;
    case CHECKPOINT_LOAD:
        step->kind = STEP_LOAD;
        step->took_us = 0;
        if (load_next(c, step))
            return true;
        break;
    case CHECKPOINT_COPY:
        step->kind = STEP_COPY;
        step->took_us = 0;
        step->barrier = pace_needs_barrier(c);
        for (; k->image != NULL; next_image(c)) {
            step->image = k->image;
            if (!k->image->skip && gather(c, step)) {
                k->image->copied = true;
                pin_step(c);
                return true;
            }
        }
        break;
    case CHECKPOINT_FLUSH:
        step->kind = STEP_FLUSH_IMAGE;
        for (; k->image != NULL; next_image(c)) {
            step->image = k->image;
            if (PLANTED(30) && k->image != TAILQ_FIRST(&c->images)) /* only one is flushed */
                continue;
            if (must_flush(k) && !k->image->skip &&
                !PLANTED(2)) /* the tail moves before the image is flushed */
                return true;
            if (!k->image->skip)
                healed(k->image);
        }
        break;
    case CHECKPOINT_CARRY:
        step->kind = STEP_CARRY;
        for (; k->carry && k->image != NULL; next_image(c)) {
            step->image = k->image;
            if (k->image->skip && gather(c, step)) {
                carry_first(c, step);
                pin_step(c);
                return true;
            }
        }
        break;
    case CHECKPOINT_SUPERSEDING:
        step->kind = STEP_COMMIT;
        if (PLANTED(9)) /* the tail passes what only a record that may be lost replaces */
            break;
        if (c->durable.lsn < k->awaited_lsn)
            return true;
        break;
    case CHECKPOINT_RETIRE:
        step->kind = STEP_RETIRE;
        if (k->image != NULL) {
            if (k->image->skip || retire_some(c))
                next_image(c);
            return true;
        }
        break;
    case CHECKPOINT_SUPER:
        step->kind = STEP_SUPER;
        /* P5: clean only if nothing came after the target. */
        if (skipped(c) != 0 && !k->carry)
            break;
        drained = k->clean && k->target.lsn == c->last_lsn && all_durable(c);
        if (PLANTED(21)) /* space is reused before the superblock is durable */
            c->tail = k->target;
        if (PLANTED(10) && !drained && k->target.position % c->sb.sector_bytes != 0)
            break;
        if (PLANTED(10))
            k->target.position = round_up(k->target.position, c->sb.sector_bytes);
        /* Where writes bypass, both superblocks have to have the tail (bypass.c).  The CLEAN one
         * comes last: without it nothing is replayed, either. */
        moved = k->target.position != c->tail.position;
        if (moved || drained || (bypassed(c) && c->older_tail_lsn != c->tail.lsn)) {
            core_super_plan(c, &step->super,
                            PLANTED(20) ? &c->durable /* not home */ : &k->target,
                            drained && !(moved && bypassed(c)) ? SUPER_STATE_CLEAN : 0, now_us);
            return true;
        }
        break;
    case CHECKPOINT_IDLE:
        assert(!"no checkpoint is running");
    }
    return false;
}

/* What images that fail may hold of the ring, in all; beyond it only their own writers get the
 * error. */
static uint64_t failed_share(const struct core *c)
{
    return c->sb.ring_bytes / 4;
}

static void finish(struct core *c, struct checkpoint_step *step)
{
    struct checkpoint *k = &c->checkpoint;
    struct core_image *image;

    step->kind = STEP_DONE;
    step->error = skipped(c);
    if (step->error == 0)
        step->error = k->lost;
    TAILQ_FOREACH (image, &c->images, link) {
        if (image->skip && k->carry)
            image->full = k->carried_bytes > failed_share(c);
    }
    /* The tail is where it was: who waits for space learns why. */
    c->image_error = k->carry ? 0 : step->error;
    c->carry_failed = k->carry_failed;
    c->space_generation++;
    if (step->error == 0)
        c->stats.checkpoints++;
    k->phase = CHECKPOINT_IDLE;
}

int core_checkpoint_next(struct core *c, struct checkpoint_step *step, uint64_t now_us)
{
    struct checkpoint *k = &c->checkpoint;

    if (c->error != 0) {
        k->phase = CHECKPOINT_IDLE;
        return -EIO;
    }
    if (k->phase >= CHECKPOINT_SUPER && c->super_in_flight)
        return -EBUSY;
    while (!advance(c, step, now_us)) {
        if (k->phase == CHECKPOINT_SUPER) {
            finish(c, step);
            return 0;
        }
        enter(c, k->phase + 1);
    }
    return 0;
}

static void count_copied(struct core *c, const struct checkpoint_step *step)
{
    uint64_t home_bytes = 0;

    for (size_t i = 0; i < step->count; i++) {
        if (step->segments[i].source == READ_JOURNAL)
            home_bytes += step->segments[i].length;
        else
            c->stats.zeroed_bytes += step->segments[i].length;
    }
    c->stats.home_bytes += home_bytes;
    step->image->home_bytes += home_bytes;
    c->stats.home_segments += step->count;
}

static bool overlaps_inflight(const struct core *c, const struct core_image *image,
                              const struct checkpoint_segment *s)
{
    const struct append *a;

    TAILQ_FOREACH (a, &c->inflight, link) {
        if (a->image == image && a->record.offset < s->offset + s->length &&
            s->offset < a->record.offset + a->record.length)
            return true;
    }
    return false;
}

/* The same bytes again, with a new lsn.  That changes no state (P2): they are the newest of their
 * range, and nothing that was admitted before is on its way to it. */
int core_carry_begin(struct core *c, struct checkpoint_step *step, struct append *a,
                     uint64_t payload_sum, uint64_t now_us)
{
    struct checkpoint *k = &c->checkpoint;
    const struct checkpoint_segment *s = &step->segments[0];
    const struct version *v = map_find(&step->image->map, s->offset);
    enum record_kind kind = s->source == READ_JOURNAL   ? RECORD_WRITE
                            : s->source == READ_TRIMMED ? RECORD_TRIM
                                                        : RECORD_ZERO;
    int r;

    assert(step->kind == STEP_CARRY && k->phase == CHECKPOINT_CARRY);
    unpin_step(c); /* its bytes are read; a pin could hold back what it waits for */
    if (v == NULL || v->lsn != k->carried_lsn || v->offset > s->offset ||
        v->offset + v->length < s->offset + s->length)
        return 1;
    if (overlaps_inflight(c, step->image, s))
        return -EAGAIN;
    r = core_append_again(c, a, step->image, kind, s->offset, s->length, payload_sum, now_us);
    if (r == 0) {
        k->cursor_next = s->offset + s->length;
        k->carried_bytes += a->record.span_bytes;
    }
    return r;
}

/* The image of the step can't be written: it is left out, the others go on. */
static void leave_out(struct core *c, struct core_image *image, int error)
{
    image->failed = error;
    image->skip = true;
    next_image(c);
}

void core_checkpoint_step_end(struct core *c, struct checkpoint_step *step, int error)
{
    struct checkpoint *k = &c->checkpoint;

    unpin_step(c);
    switch (step->kind) {
    case STEP_COPY:
        if (error != 0) {
            leave_out(c, step->image, error);
        } else {
            k->cursor = k->cursor_next;
            count_copied(c, step);
            pace_copied(c, step);
        }
        break;
    case STEP_LOAD:
        k->load_from = step->load_to;
        pace_loaded(c, step);
        break;
    case STEP_FLUSH_IMAGE:
        if (error != 0 && PLANTED(18)) /* taken as home all the same */
            map_retire(&k->image->map, k->target.lsn, &k->cursor, SIZE_MAX);
        if (error == 0 && step->image->skip) /* another barrier failed since it was copied */
            error = step->image->failed;
        if (error != 0) {
            leave_out(c, step->image, error);
        } else {
            k->image->copied = false;
            healed(k->image);
            next_image(c);
        }
        break;
    case STEP_CARRY:
        if (error != 0) { /* no room: the tail stays */
            k->carry = false;
            k->carry_failed = true;
        }
        k->cursor = k->cursor_next;
        break;
    case STEP_SUPER:
        core_super_end(c, &step->super, error);
        if (step->super.clean)
            k->clean = false; /* the tail is at the target: another look ends the phase */
        break;
    case STEP_COMMIT:
        if (error != 0)
            core_abort(c, error);
        break;
    case STEP_READERS:
    case STEP_RETIRE:
    case STEP_DONE:
        break;
    }
}
