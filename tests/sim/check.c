/* check: what would be left if the last event were the last: kill -9, and power cuts.
 *
 * After kill -9 there is one state: the caches.  After a power cut there is one for each choice
 * of an unflushed version (or none) of each sector.  When they are few all are listed (the state
 * is named eN, N written in the mixed base of the choices); when they are many some are sampled
 * (sN), those at the edges first.  Samples also have sectors that are torn inside, where the
 * medium allows that: a sector of the journal in any way, a sector of an image only if all of
 * it was being written.
 *
 * An event that only wrote is tried only with states that contain what it wrote: the others
 * were there before.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "world.h"

/* One recovered state in so many is also drained, and the image compared. */
#define DRAIN_ONE_IN 24

struct slot {
    struct disk *disk;
    uint32_t sector;
    uint32_t first, count; /* its versions, oldest first, in check->choices */
};

struct check {
    const struct world_options *options;
    uint8_t *view;
    size_t view_room;
    uint8_t *staged; /* the journal with what is staged over it */
    size_t staged_room;
    uint8_t *drain_journal, *drain_images[MODEL_IMAGES];
    size_t drain_journal_room, drain_image_room[MODEL_IMAGES];
    struct slot *slots;
    size_t slot_count, slot_room;
    uint32_t *choices;
    size_t choice_count, choice_room;
    /* of them, what the last check has not seen */
    struct {
        uint32_t slot, choice;
    } * fresh;
    size_t fresh_count, fresh_room;
};

struct check *check_new(const struct world_options *options)
{
    struct check *check = memory_get(sizeof(*check));

    check->options = options;
    return check;
}

void check_free(struct check *check)
{
    free(check->view);
    free(check->staged);
    free(check->drain_journal);
    for (unsigned i = 0; i < MODEL_IMAGES; i++)
        free(check->drain_images[i]);
    free(check->slots);
    free(check->choices);
    free(check->fresh);
    free(check);
}

static uint8_t *room_for(uint8_t **memory, size_t *room, size_t bytes)
{
    if (*room < bytes) {
        *memory = memory_resize(*memory, bytes);
        *room = bytes;
    }
    return *memory;
}

/* ---- is it a state that the model allows? ---- */

/* Where a state differs from what it should be (byte `first` of it), in words. */
static void complain(struct world *w, const char *state, const char *promise, uint32_t k,
                     const uint8_t *shown, size_t first, const char *where)
{
    struct model *model = &w->model;
    const uint8_t *right = model_state(model, k);
    char is[300], due[300];

    for (unsigned i = 0; i < model->image_count; i++) {
        size_t at = model->image_at[i], b = first - at;

        if (first < at || b >= model->image_size[i])
            continue;
        model_explain(model, i, b, shown[first], is, sizeof(is));
        model_explain(model, i, b, right[first], due, sizeof(due));
        world_fail(w, promise, state,
                   "%s is not the state after %u changes (%u durable, %u answered, %u "
                   "admitted): byte %zu of image %u is %s, should be %s",
                   where, k, model->durable, model->answered, model->count, b, i, is, due);
    }
}

static bool drains(struct check *check, struct world *w, const char *state,
                   struct recovered *found, uint32_t k, const uint8_t *journal,
                   uint8_t *const images[])
{
    struct model *model = &w->model;
    uint8_t *copies[MODEL_IMAGES];
    uint8_t *ring =
        room_for(&check->drain_journal, &check->drain_journal_room, w->journal.size);

    memcpy(ring, journal, w->journal.size);
    for (unsigned i = 0; i < model->image_count; i++) {
        copies[i] = room_for(&check->drain_images[i], &check->drain_image_room[i],
                             model->image_size[i]);
        memcpy(copies[i], images[i], model->image_size[i]);
    }
    w->counts->states_drained++;
    if (!recover_drain(w, state, found->core, ring, copies))
        return false;
    for (unsigned i = 0; i < model->image_count && !w->failed; i++) {
        const uint8_t *shown = check->view + model->image_at[i];
        size_t b = 0;

        if (memcmp(shown, copies[i], model->image_size[i]) == 0)
            continue;
        while (shown[b] == copies[i][b])
            b++;
        world_fail(
            w, "P5", state,
            "the image alone, after a drain, is not what was shown after %u changes: byte "
            "%zu of image %u",
            k, b, i);
    }
    return !w->failed;
}

static bool is_to_drain(const struct world *w, const char *state)
{
    uint64_t hash = rng_mix(w->seed ^ rng_mix(w->event));

    for (; *state != 0; state++)
        hash = rng_mix(hash ^ (uint8_t)*state);
    return hash % DRAIN_ONE_IN == 0;
}

static void judge(struct check *check, struct world *w, const char *state, bool power,
                  uint32_t k)
{
    struct model *model = &w->model;
    uint32_t least = power ? model->durable : model->answered;
    size_t first;

    if (k < least) {
        world_fail(w, power ? "P1" : "P0", state,
                   "recovery finds %u changes, but %u are promised (%u admitted)", k, least,
                   model->count);
        return;
    }
    first = model_judge(model, k, power, check->view);
    if (first == model->state_bytes)
        return;
    /* Recovery may count otherwise than we do; the state is what matters. */
    for (uint32_t other = least; other <= model->count; other++) {
        if (memcmp(check->view, model_state(model, other), model->state_bytes) == 0) {
            world_fail(w, "P2", state,
                       "recovery says that it found %u changes, the images show %u", k, other);
            return;
        }
    }
    complain(w, state, "P2", k, check->view, first, "what is shown");
}

/* What a server that starts on these bytes shows: is it a state that the model allows?  Sets *k,
 * the number of changes. */
static void check_shown(struct check *check, struct world *w, const char *state, bool power,
                        const uint8_t *journal, uint8_t *const images[], uint32_t *k)
{
    struct recovered found;
    int r;

    room_for(&check->view, &check->view_room, w->model.state_bytes);
    if (!recover_open(w, state, journal, &found))
        return;
    r = recover_view(w, found.core, journal, images, check->view);
    if (r < 0)
        world_fail(w, "P7", state, "a read after recovery: %s", strerror(-r));
    *k = model_count_upto(&w->model, found.result.cut.lsn);
    if (!w->failed)
        judge(check, w, state, power, *k);
    w->counts->states_replayed += found.result.records > 0;
    if (!w->failed && is_to_drain(w, state))
        drains(check, w, state, &found, *k, journal, images);
    core_destroy(found.core);
}

static void check_cut(struct check *check, struct world *w, const char *state, uint32_t *k)
{
    uint8_t *images[MODEL_IMAGES];

    for (unsigned i = 0; i < w->setup.image_count; i++)
        images[i] = w->images[i].view;
    check_shown(check, w, state, true, w->journal.view, images, k);
}

void check_kill(struct check *check, struct world *w, uint32_t *k)
{
    uint8_t *images[MODEL_IMAGES];
    uint8_t *room = room_for(&check->staged, &check->staged_room, w->journal.size);
    const uint8_t *journal;

    for (unsigned i = 0; i < w->setup.image_count; i++)
        images[i] = w->images[i].device; /* the server drops what its page cache pretends */
    w->counts->states_kill++;
    journal = recover_after_kill(w, "k", room);
    if (!w->failed)
        check_shown(check, w, "k", false, journal, images, k);
}

/* ---- which versions are there ---- */

static struct disk *disk_of(struct world *w, unsigned number)
{
    return number == 0 ? &w->journal : &w->images[number - 1];
}

static void add_fresh(struct check *check, uint32_t slot, uint32_t choice)
{
    if (check->fresh_count == check->fresh_room) {
        check->fresh_room = check->fresh_room == 0 ? 256 : 2 * check->fresh_room;
        check->fresh = memory_resize(check->fresh, check->fresh_room * sizeof(*check->fresh));
    }
    check->fresh[check->fresh_count].slot = slot;
    check->fresh[check->fresh_count++].choice = choice;
}

static void add_slot(struct check *check, struct disk *disk, uint32_t sector, uint64_t seen)
{
    uint32_t count = 0, first = check->choice_count;
    struct slot *slot;

    for (uint32_t c = disk->newest[sector]; c != DISK_STABLE; c = disk->versions[c - 1].older)
        count++;
    if (check->choice_count + count > check->choice_room) {
        check->choice_room = 2 * (check->choice_count + count);
        check->choices =
            memory_resize(check->choices, check->choice_room * sizeof(*check->choices));
    }
    check->choice_count += count;
    for (uint32_t c = disk->newest[sector], i = first + count; c != DISK_STABLE;
         c = disk->versions[c - 1].older) {
        check->choices[--i] = c;
        if (disk->versions[c - 1].sequence >= seen)
            add_fresh(check, check->slot_count, c);
    }
    if (check->slot_count == check->slot_room) {
        check->slot_room = check->slot_room == 0 ? 256 : 2 * check->slot_room;
        check->slots = memory_resize(check->slots, check->slot_room * sizeof(*check->slots));
    }
    slot = &check->slots[check->slot_count++];
    *slot = (struct slot){disk, sector, first, count};
}

/* How many states there are, or `most` + 1 if more than that. */
static uint64_t gather(struct check *check, struct world *w, uint64_t most)
{
    uint64_t states = 1;

    check->slot_count = check->choice_count = check->fresh_count = 0;
    for (unsigned d = 0; d <= w->setup.image_count; d++) {
        struct disk *disk = disk_of(w, d);

        for (size_t i = 0; i < disk->pending_count; i++) {
            add_slot(check, disk, disk->pending[i], w->checked_sequence[d]);
            states *= 1 + check->slots[check->slot_count - 1].count;
            if (states > most)
                states = most + 1;
        }
    }
    return states;
}

static void reset_views(struct world *w)
{
    for (unsigned d = 0; d <= w->setup.image_count; d++)
        disk_view_reset(disk_of(w, d));
}

/* Slot shows its version number n (1: the oldest), 0: what is stable. */
static void set_slot(const struct check *check, const struct slot *slot, uint32_t n)
{
    disk_view_set(slot->disk, slot->sector,
                  n == 0 ? DISK_STABLE : check->choices[slot->first + n - 1]);
}

/* ---- listed states ---- */

/* True if it contains something that the last check has not seen. */
static bool set_listed(const struct check *check, uint64_t number)
{
    for (size_t i = 0; i < check->slot_count; i++) {
        const struct slot *slot = &check->slots[i];

        set_slot(check, slot, number % (1 + slot->count));
        number /= 1 + slot->count;
    }
    for (size_t i = 0; i < check->fresh_count; i++) {
        const struct slot *slot = &check->slots[check->fresh[i].slot];

        if (slot->disk->choice[slot->sector] == check->fresh[i].choice)
            return true;
    }
    return false;
}

static void try_listed(struct check *check, struct world *w, uint64_t states, bool all)
{
    char name[32];
    uint32_t k;

    for (uint64_t number = 0; number < states && !w->failed; number++) {
        if (!set_listed(check, number) && !all)
            continue;
        w->counts->states_listed++;
        snprintf(name, sizeof(name), "e%llu", (unsigned long long)number);
        check_cut(check, w, name, &k);
    }
}

/* ---- sampled states ---- */

/* Torn inside: sectors that were being written when the power went. */
static void scribble(const struct check *check, struct world *w, struct rng *rng)
{
    uint32_t group = w->setup.sector_bytes / DISK_SECTOR;

    for (uint64_t n = rng_range(rng, 1, 3); n > 0; n--) {
        const struct slot *slot = &check->slots[rng_below(rng, check->slot_count)];
        uint32_t first = slot->sector / group * group;
        bool whole = false, bypass = false;

        if (slot->disk == &w->journal) {
            /* Its device writes whole sectors of the size that the superblock names. */
            for (uint32_t s = first; s < first + group; s++) {
                if (group == 1 || rng_chance(rng, 60))
                    disk_view_scribble(slot->disk, s, rng);
            }
            continue;
        }
        for (uint32_t c = 0; c < slot->count; c++) {
            const struct disk_version *version =
                &slot->disk->versions[check->choices[slot->first + c] - 1];

            whole |= version->whole;
            bypass |= version->bypass;
        }
        /* What bypassed the journal is torn between sectors only: there is nothing to mend it. */
        if (whole && !bypass)
            disk_view_scribble(slot->disk, slot->sector, rng);
    }
}

enum sample_kind {
    SAMPLE_NONE,
    SAMPLE_ALL,
    SAMPLE_ONE_DISK,
    SAMPLE_BIASED,
    SAMPLE_PREFIX,
};

static void set_sample(const struct check *check, struct world *w, enum sample_kind kind,
                       struct rng *rng)
{
    static const unsigned percents[] = {5, 50, 95};
    unsigned percent = percents[rng_below(rng, 3)];
    const struct disk *one = disk_of(w, rng_below(rng, 1 + w->setup.image_count));
    uint64_t upto[1 + MODEL_IMAGES];

    for (unsigned d = 0; d <= w->setup.image_count; d++) {
        const struct disk *disk = disk_of(w, d);
        uint64_t first = disk->version_count > 0 ? disk->versions[0].sequence : 0;

        upto[d] = first + rng_below(rng, disk->sequence - first + 1);
    }
    for (size_t i = 0; i < check->slot_count; i++) {
        const struct slot *slot = &check->slots[i];
        uint32_t n = 0;

        switch (kind) {
        case SAMPLE_ALL:
            n = slot->count;
            break;
        case SAMPLE_ONE_DISK:
            n = slot->disk == one ? slot->count : 0;
            break;
        case SAMPLE_BIASED:
            n = rng_chance(rng, percent) ? rng_range(rng, 1, slot->count) : 0;
            break;
        case SAMPLE_PREFIX: /* what was written early is there */
            for (unsigned d = 0; d <= w->setup.image_count; d++) {
                if (disk_of(w, d) != slot->disk)
                    continue;
                while (n < slot->count &&
                       slot->disk->versions[check->choices[slot->first + n] - 1].sequence <
                           upto[d])
                    n++;
            }
            if (rng_chance(rng, 4)) /* or, now and then, not */
                n = rng_range(rng, 0, slot->count);
            break;
        default:
            break;
        }
        set_slot(check, slot, n);
    }
}

/* Sets state sN.  `all`: also without anything new. */
static void set_sampled(const struct check *check, struct world *w, uint64_t number, bool all)
{
    struct rng rng = rng_stream(w->seed, w->event, number);
    enum sample_kind kind = number < 2 ? number : rng_range(&rng, SAMPLE_ALL, SAMPLE_PREFIX);

    set_sample(check, w, kind, &rng);
    if (!all && check->fresh_count > 0) {
        size_t pick = rng_below(&rng, check->fresh_count);
        const struct slot *slot = &check->slots[check->fresh[pick].slot];

        disk_view_set(slot->disk, slot->sector, check->fresh[pick].choice);
    }
    if (number >= 2 && check->slot_count > 0 &&
        rng_chance(&rng, kind == SAMPLE_ALL ? 100 : 20)) {
        scribble(check, w, &rng);
        w->counts->states_scribbled++;
    }
}

static void try_sampled(struct check *check, struct world *w, bool all)
{
    char name[32];
    uint32_t k;

    for (uint64_t number = 0; number < check->options->samples && !w->failed; number++) {
        reset_views(w);
        set_sampled(check, w, number, all);
        w->counts->states_sampled++;
        snprintf(name, sizeof(name), "s%llu", (unsigned long long)number);
        check_cut(check, w, name, &k);
    }
}

/* ---- an event ---- */

/* Only the one state that was asked for. */
static void try_named(struct check *check, struct world *w, bool all)
{
    const char *name = check->options->state;
    uint64_t number = strtoull(name + 1, NULL, 10);
    uint32_t k;

    switch (name[0]) {
    case 'k':
        check_kill(check, w, &k);
        return;
    case 'e':
        set_listed(check, number);
        break;
    default:
        set_sampled(check, w, number, all);
    }
    if (w->verbose) {
        for (size_t i = 0; i < check->slot_count; i++) {
            const struct slot *s = &check->slots[i];
            uint32_t choice = s->disk->choice[s->sector];

            story(w, "  crash state: %s, sector %u: %s", s->disk->name, s->sector,
                  choice == DISK_STABLE      ? "old"
                  : choice == DISK_SCRIBBLED ? "torn"
                                             : "written");
        }
    }
    check_cut(check, w, name, &k);
}

/* In a large world most events are passed over: many worlds show more than one in full. */
static bool is_looked_at(const struct world *w)
{
    struct rng rng = rng_stream(w->seed, w->event, UINT64_MAX);

    return rng_chance(&rng, w->setup.check_percent);
}

void check_event(struct check *check, struct world *w)
{
    const struct world_options *options = check->options;
    bool bounds = w->checked_bounds != w->model.bounds;
    bool skip = options->only_event && w->event != options->event;
    uint64_t states, most = w->setup.listed_max;
    uint32_t k;

    if (!is_looked_at(w))
        return;
    if (!skip) {
        states = gather(check, w, most);
        if (options->only_event && options->state != NULL) {
            try_named(check, w, bounds);
        } else {
            check_kill(check, w, &k);
            if (!w->failed && (bounds || check->fresh_count > 0)) {
                if (states <= most)
                    try_listed(check, w, states, bounds);
                else
                    try_sampled(check, w, bounds);
            }
        }
        reset_views(w);
    }
    w->checked_bounds = w->model.bounds;
    for (unsigned d = 0; d <= w->setup.image_count; d++)
        w->checked_sequence[d] = disk_of(w, d)->sequence;
}

void check_power_cut(struct check *check, struct world *w, uint32_t *k)
{
    gather(check, w, 1);
    set_sampled(check, w, 2 + rng_below(&w->rng, 1000), true);
    check_cut(check, w, "cut", k);
}

const uint8_t *check_shown_last(const struct check *check)
{
    return check->view;
}

void check_stopped(struct check *check, struct world *w)
{
    struct model *model = &w->model;
    struct recovered found;
    size_t first;

    for (uint64_t number = 0; number < 4 && !w->failed; number++) {
        reset_views(w);
        gather(check, w, 1);
        set_sampled(check, w, number, true);
        if (!recover_open(w, NULL, w->journal.view, &found))
            break;
        core_destroy(found.core);
        if (!found.clean || found.result.verdict != RECOVERY_EMPTY)
            world_fail(w, "P5", NULL, "the journal is not clean and empty after a clean stop");
        room_for(&check->view, &check->view_room, model->state_bytes);
        for (unsigned i = 0; i < model->image_count; i++)
            memcpy(check->view + model->image_at[i], w->images[i].view, model->image_size[i]);
        first = model_judge(model, model->count, true, check->view);
        if (first != model->state_bytes)
            complain(w, NULL, "P5", model->count, check->view, first,
                     "the image alone, after a clean stop,");
    }
    reset_views(w);
}
