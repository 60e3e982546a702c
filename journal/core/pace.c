/* pace: how fast a checkpoint goes, and how fast the ring may fill meanwhile.
 *
 * A ring that is full stops its writers until the checkpoint has ended, which may take seconds on
 * a slow disk.  So they are slowed down before that (P8: nobody is stopped while the image's disk
 * makes progress): the space that is free when a checkpoint begins is given out in the measure of
 * its progress.  Who writes slower than the disk takes it home never notices; who writes faster
 * gets exactly the rate of the disk, in small portions.
 *
 *      tail                begin_head                                head_max -->       tail + ring
 *       |  being copied  ...   |  free_share: at once  |  metered: with each step  |  last share |
 *
 * The last share of it is given out when the copying is done, for what remains: barriers and the
 * superblock.  A drain of an idle disk, which nobody has waited for, gives most of it at once.
 *
 * A step of copying ends when its bytes are on the disk, so that what others have to wait for, a
 * reader for the head of the disk, a commit for the disk's own cache, is bounded by a
 * step.  How much a step may be is learned from how long steps take, and how long one may take
 * from how long commits take when there is no checkpoint: a few of them.  While somebody waits for
 * space it is more, because large steps in the order of the image are what makes a seeking disk
 * fast: 8 places in 40 ms, 130 in 120 ms (the hard disk of tests/slow, between commits).
 */
#include "core_state.h"

/* What it costs to go to another place, in bytes that could be written instead. */
#define PLACE_COST 65536u

/* A step may take as long as so many commits, but at least and at most this.  [1]: somebody waits
 * for space.  A fast disk gains nothing from larger steps, and all commits meanwhile take as long as
 * one. */
static const uint64_t step_commits[2] = {4, 16};
static const uint64_t fast_step_commits[2] = {2, 16};
static const uint64_t step_us_min[2] = {200, 1500};
static const uint64_t step_us_max[2] = {40000, 120000};
#define SLOW_COMMIT_US 3000u

#define COPY_MIN (8 * PLACE_COST)
#define COPY_MAX (CHECKPOINT_SEGMENTS * PLACE_COST + CHECKPOINT_BYTES)
#define COPY_FIRST (64 * PLACE_COST)

#define LOAD_MIN (UINT64_C(128) << 10)
#define LOAD_MAX (UINT64_C(4) << 20)
#define LOAD_FIRST (UINT64_C(512) << 10)

/* ---- when ---- */

bool core_checkpoint_possible(const struct core *c)
{
    return c->error == 0 && c->life == CORE_RUNNING && c->head != c->tail.position;
}

bool core_checkpoint_wanted(const struct core *c)
{
    return core_checkpoint_possible(c) &&
           (c->space_wanted || c->head - c->tail.position > c->sb.ring_bytes / 2);
}

/* ---- space ---- */

static uint64_t segment_work(uint64_t bytes)
{
    return bytes + PLACE_COST;
}

static uint64_t copy_work(const struct checkpoint_step *step)
{
    uint64_t work = 0;

    for (size_t i = 0; i < step->count; i++)
        work += segment_work(step->segments[i].source == READ_JOURNAL ? step->segments[i].length
                                                                      : 0);
    return work;
}

static uint64_t load_work(const struct core *c, uint64_t bytes)
{
    return (uint64_t)(c->pace.load_cost * bytes);
}

/* Next to a place of a hard disk, reading costs nothing; on flash it is a quarter of the time, in
 * which writers would come to a stop if it counted for nothing. */
static void learn_load_cost(struct pace *p)
{
    double cost;

    if (p->loading.us == 0 || p->copying.us == 0 || p->copying.work == 0)
        return; /* nothing of one of them, or the times are not told */
    cost = (double)p->loading.us / p->loading.work * p->copying.work / p->copying.us;
    p->load_cost = cost < 0.1 ? 0.1 : cost > 20 ? 20 : cost;
}

/* Of a new core. */
void pace_reset(struct core *c)
{
    c->pace = (struct pace){.head_max = UINT64_MAX,
                            .moved = c->sb.ring_bytes,
                            .load_cost = 1,
                            .copy_size = {COPY_FIRST, COPY_FIRST},
                            .load_size = {LOAD_FIRST, LOAD_FIRST}};
}

static void meter(struct core *c)
{
    struct pace *p = &c->pace;
    double share = p->work > 0 ? (double)p->done / p->work : 1;

    p->head_max = p->begin_head + p->free_share + (uint64_t)(share * p->metered);
    c->space_generation++;
}

/* So far the head may move until all is copied, as it did the last time. */
uint64_t pace_head_then(const struct core *c)
{
    uint64_t room = c->tail.position + c->sb.ring_bytes - c->head;
    uint64_t moves = c->pace.moved + c->pace.moved / 2;

    return c->head + (moves < room ? moves : room);
}

/* The target is known, and what there is to load. */
void pace_begin(struct core *c)
{
    struct pace *p = &c->pace;
    uint64_t reserve = core_reserve(c) + core_carry_reserve(c);
    uint64_t room = c->tail.position + c->sb.ring_bytes - c->head;
    const struct core_image *image;

    room = room > reserve ? room - reserve : 0;
    p->begin_head = c->head;
    p->done = 0;
    p->held = false;
    p->loading = p->copying = (struct pace_spent){0};
    p->work = load_work(c, c->checkpoint.load_to - c->checkpoint.load_from) +
              c->pool.used * PLACE_COST;
    TAILQ_FOREACH (image, &c->images, link)
        p->work += image->map.payload_bytes;
    /* Nobody waits, and there is room: it is only because it is quiet. */
    p->free_share = room > c->sb.ring_bytes / 4 ? room - c->sb.ring_bytes / 4 : 0;
    if (core_checkpoint_wanted(c))
        p->free_share = room / 16;
    p->metered = (room - p->free_share) / 8 * 7;
    if (c->checkpoint.clean)
        p->head_max = UINT64_MAX;
    else
        meter(c);
}

static void advance(struct core *c, uint64_t work, struct pace_spent *spent, uint64_t us)
{
    struct pace *p = &c->pace;

    spent->us += us;
    p->done = p->done + work < p->work ? p->done + work : p->work;
    if (p->head_max != UINT64_MAX)
        meter(c);
}

void pace_end(struct core *c)
{
    learn_load_cost(&c->pace);
    c->pace.moved = c->head - c->pace.begin_head;
    c->pace.head_max = UINT64_MAX;
    c->space_generation++;
}

bool pace_holds(struct core *c, uint64_t need)
{
    if (c->head + need <= c->pace.head_max)
        return false;
    c->pace.waited_for = c->pace.held = true;
    return true;
}

bool core_checkpoint_urgent(const struct core *c)
{
    return c->pace.waited_for || c->space_wanted;
}

/* ---- steps ---- */

/* Of the step that begins now. */
static void note_urgency(struct core *c)
{
    struct pace *p = &c->pace;

    p->step_urgent =
        core_checkpoint_urgent(c) || c->head - c->tail.position > c->sb.ring_bytes / 4 * 3;
    p->waited_for = false;
}

/* The next segment of a step, which goes to another place or on where the last one ended.  False:
 * it is one too many. */
bool pace_step_takes(struct core *c, const struct checkpoint_step *step,
                     const struct checkpoint_segment *s)
{
    struct pace *p = &c->pace;
    const struct checkpoint_segment *last =
        step->count > 0 ? &step->segments[step->count - 1] : NULL;

    if (last == NULL) {
        p->step_used = 0;
        note_urgency(c);
    }
    p->step_used += s->source == READ_JOURNAL ? s->length : 0;
    if (last == NULL || last->offset + last->length != s->offset)
        p->step_used += PLACE_COST;
    return last == NULL || p->step_used <= p->copy_size[p->step_urgent];
}

/* How much of the ring the next step may read, of what there is. */
uint64_t pace_load_size(struct core *c, uint64_t left)
{
    struct pace *p = &c->pace;
    uint64_t size;

    note_urgency(c);
    size = p->load_size[p->step_urgent];
    if (size > CHECKPOINT_BYTES)
        size = CHECKPOINT_BYTES;
    p->step_used = left < size ? left : size;
    return p->step_used;
}

/* A slow disk hides what it still has to do in its cache: 32 MiB of it, scattered, take a hard disk
 * half a minute, and the next commit waits for that.  Fast ones have better use for their time. */
bool pace_needs_barrier(const struct core *c)
{
    return c->pace.commit_us == 0 || c->pace.commit_us > SLOW_COMMIT_US;
}

/* From the step that has ended, how large the next ones of its kind may be: quickly down, slowly
 * up. */
static void learn(struct core *c, uint64_t size[2], uint64_t min, uint64_t max,
                  uint64_t took_us)
{
    struct pace *p = &c->pace;
    const uint64_t *commits = p->commit_us < SLOW_COMMIT_US ? fast_step_commits : step_commits;
    uint64_t most_us = p->commit_us * commits[p->step_urgent];
    uint64_t before = size[p->step_urgent], after = before;

    if (took_us == 0 || p->step_used < before / 2)
        return; /* not known, or the last one */
    if (most_us > step_us_max[p->step_urgent])
        most_us = step_us_max[p->step_urgent];
    if (most_us < step_us_min[p->step_urgent])
        most_us = step_us_min[p->step_urgent];
    if (took_us > most_us)
        after = before * most_us / took_us;
    else if (took_us < most_us * 3 / 4)
        after += before / 4;
    if (after < before / 2)
        after = before / 2;
    size[p->step_urgent] = after < min ? min : after > max ? max : after;
}

void pace_copied(struct core *c, const struct checkpoint_step *step)
{
    learn(c, c->pace.copy_size, COPY_MIN, COPY_MAX, step->took_us);
    c->pace.copying.work += copy_work(step);
    advance(c, copy_work(step), &c->pace.copying, step->took_us);
}

void pace_loaded(struct core *c, const struct checkpoint_step *step)
{
    learn(c, c->pace.load_size, LOAD_MIN, LOAD_MAX, step->took_us);
    c->pace.loading.work += step->load_to - step->load_from;
    advance(c, load_work(c, step->load_to - step->load_from), &c->pace.loading, step->took_us);
}

/* Those beside a checkpoint wait for its steps, which may not grow by that. */
void pace_committed(struct core *c, uint64_t took_us)
{
    struct pace *p = &c->pace;

    if (took_us == 0 || c->checkpoint.phase != CHECKPOINT_IDLE)
        return;
    p->commit_us = p->commit_us == 0 ? took_us : (7 * p->commit_us + took_us) / 8;
}
