/* checkpoint: durable versions go home to the image, then the tail moves.
 *
 *   1 COMMIT       everything admitted so far becomes durable; target = end of that commit.
 *                  Write-ahead rule: only what is durable goes home, so that the image never
 *                  holds
 *                  what a crash may take back (P2).
 *   2 READERS      reads planned before now may be reading, from the image, what we will write
 *   3 COPY         versions with lsn <= target, in image order, in steps
 *   4 FLUSH        the images that were written
 *   5 SUPERSEDING  versions that were replaced since 1 were not copied: the records that
 *   replaced
 *                  them must be durable before the tail passes the old ones
 *   6 RETIRE       the copied versions leave the map: reads take the image
 *   7 SUPER        the tail moves to target, durably; only then is the space free
 *
 * A crash anywhere before 7 is durable replays from the old tail, over an image that has only
 * durable data of records at or behind that tail: same result.  An error in 3 or 4 changes
 * nothing
 * in the map, so the next attempt writes all of it again: what a failed image flush covered
 * is not
 * trusted (P4).
 */
#include <assert.h>
#include <errno.h>

#include "core_state.h"

/* Map entries looked at in one step of RETIRE: bounds the time under the lock. */
#ifndef RETIRE_ENTRIES
#define RETIRE_ENTRIES 4096
#endif

bool core_checkpoint_possible(const struct core *c)
{
    return c->error == 0 && c->life == CORE_RUNNING && c->head != c->tail.position;
}

bool core_checkpoint_wanted(const struct core *c)
{
    return core_checkpoint_possible(c) &&
           (c->space_wanted || c->head - c->tail.position > c->sb.ring_bytes / 2);
}

int core_checkpoint_begin(struct core *c, bool clean)
{
    assert(c->life == CORE_RUNNING || c->life == CORE_ACTIVATED);
    if (c->error != 0)
        return -EIO;
    if (c->checkpoint.phase != CHECKPOINT_IDLE)
        return -EBUSY;
    c->checkpoint = (struct checkpoint){
        .phase = CHECKPOINT_COMMIT, .clean = clean, .awaited_lsn = c->last_lsn};
    return 0;
}

bool core_checkpoint_readers_gone(const struct core *c)
{
    const struct read_pin *oldest = TAILQ_FIRST(&c->pins);

    return oldest == NULL || oldest->number >= c->checkpoint.pin_limit;
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
    case CHECKPOINT_COPY:
    case CHECKPOINT_FLUSH:
    case CHECKPOINT_RETIRE:
        first_image(c);
        break;
    case CHECKPOINT_SUPERSEDING:
        c->image_error = 0; /* all images took and flushed what they got */
        k->awaited_lsn = c->published_lsn;
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
            room -= s->length;
        }
        k->cursor_next = s->offset + s->length;
        if (PLANTED(31)) /* the rest of one that was too long stays behind */
            k->cursor_next = v->offset + v->length;
        step->count++;
    }
    return step->count > 0;
}

/* One look at the running checkpoint: true if *step is to be carried out, false if a phase has
 * ended. */
static bool advance(struct core *c, struct checkpoint_step *step, uint64_t now_us)
{
    struct checkpoint *k = &c->checkpoint;
    bool drained;

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
    case CHECKPOINT_COPY:
        step->kind = STEP_COPY;
        for (; k->image != NULL; next_image(c)) {
            step->image = k->image;
            if (gather(c, step)) {
                k->image->copied = true;
                core_pin(c, &k->pin);
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
            if (k->image->copied &&
                !PLANTED(2)) /* the tail moves before the image is flushed */
                return true;
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
            if (map_retire(&k->image->map, k->target.lsn, &k->cursor, RETIRE_ENTRIES))
                next_image(c);
            return true;
        }
        break;
    case CHECKPOINT_SUPER:
        step->kind = STEP_SUPER;
        /* P5: clean only if nothing came after the target. */
        drained = k->clean && k->target.lsn == c->last_lsn;
        if (PLANTED(21)) /* space is reused before the superblock is durable */
            c->tail = k->target;
        if (PLANTED(10) && !drained && k->target.position % c->sb.sector_bytes != 0)
            break;
        if (PLANTED(10))
            k->target.position = round_up(k->target.position, c->sb.sector_bytes);
        if (drained || k->target.position != c->tail.position) {
            core_super_plan(c, &step->super,
                            PLANTED(20) ? &c->durable /* not home */ : &k->target,
                            drained ? SUPER_STATE_CLEAN : 0, now_us);
            return true;
        }
        break;
    case CHECKPOINT_IDLE:
        assert(!"no checkpoint is running");
    }
    return false;
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
            k->phase = CHECKPOINT_IDLE;
            c->stats.checkpoints++;
            step->kind = STEP_DONE;
            return 0;
        }
        enter(c, k->phase + 1);
    }
    return 0;
}

static void count_copied(struct core *c, const struct checkpoint_step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        if (step->segments[i].source == READ_JOURNAL)
            c->stats.home_bytes += step->segments[i].length;
        else
            c->stats.zeroed_bytes += step->segments[i].length;
    }
    c->stats.home_segments += step->count;
}

void core_checkpoint_step_end(struct core *c, struct checkpoint_step *step, int error)
{
    struct checkpoint *k = &c->checkpoint;

    if (step->kind == STEP_SUPER) {
        core_super_end(c, &step->super, error);
        if (error == 0) { /* the tail is at the target now: a second look ends the phase */
            k->clean = false;
            return;
        }
    }
    if (step->kind == STEP_COPY)
        core_unpin(c, &k->pin);
    if (error != 0) {
        k->phase = CHECKPOINT_IDLE;
        if (PLANTED(18) && step->kind == STEP_FLUSH_IMAGE) /* taken as home all the same */
            map_retire(&k->image->map, k->target.lsn, &k->cursor, SIZE_MAX);
        if (step->kind == STEP_COPY || step->kind == STEP_FLUSH_IMAGE) {
            c->image_error = error;
            c->space_generation++; /* who waits for space learns why there is none */
        } else if (step->kind == STEP_COMMIT) {
            core_abort(c, error);
        }
        return;
    }
    switch (step->kind) {
    case STEP_COPY:
        k->cursor = k->cursor_next;
        count_copied(c, step);
        break;
    case STEP_FLUSH_IMAGE:
        k->image->copied = false;
        break;
    default: /* the phase ends when its condition holds */
        break;
    }
}
