/* model: see model.h. */
#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "model.h"
#include "rng.h"

/* The word of content at offsets [8 * word, 8 * word + 8), byte by byte never zero. */
static uint64_t content_word(uint64_t content, uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t random = rng_mix(content * UINT64_C(0x9e3779b97f4a7c15) ^ rng_mix(word + 1));

    if (((random - ones) & ~random & tops) != 0) { /* one of them is */
        for (unsigned shift = 0; shift < 64; shift += 8) {
            if ((random >> shift & 0xff) == 0)
                random |= UINT64_C(0xa5) << shift;
        }
    }
    return htole64(random);
}

void model_content(uint64_t content, uint64_t offset, uint8_t *bytes, size_t count)
{
    while (count > 0) {
        uint64_t word = content_word(content, offset / 8);
        size_t skip = offset % 8, piece = count < 8 - skip ? count : 8 - skip;

        if (piece == 8)
            memcpy(bytes, &word, 8);
        else
            memcpy(bytes, (uint8_t *)&word + skip, piece);
        bytes += piece;
        offset += piece;
        count -= piece;
    }
}

void model_init(struct model *model, unsigned image_count, const size_t image_size[])
{
    *model = (struct model){.image_count = image_count, .content_next = 1 + MODEL_IMAGES};
    for (unsigned i = 0; i < image_count; i++) {
        model->image_size[i] = image_size[i];
        model->image_at[i] = model->state_bytes;
        model->state_bytes += image_size[i];
    }
    model->room = 256;
    model->changes = memory_get(model->room * sizeof(*model->changes));
    model->base = memory_get(model->state_bytes);
    model->base_version = memory_get(model->state_bytes * sizeof(*model->base_version));
    model->floor = memory_get(model->state_bytes * sizeof(*model->floor));
    model->shown = memory_get(model->state_bytes * sizeof(*model->shown));
    model->stamp = 1;
    for (unsigned i = 0; i < image_count; i++)
        model_content(1 + i, 0, model->base + model->image_at[i], image_size[i]);
}

void model_destroy(struct model *model)
{
    for (unsigned i = 0; i < MODEL_STATES; i++)
        free(model->states[i]);
    free(model->changes);
    free(model->gone);
    free(model->base);
    free(model->base_version);
    free(model->floor);
    free(model->shown);
    free(model->loose);
}

static size_t change_at(const struct model *model, const struct change *change)
{
    return model->image_at[change->image] + change->offset;
}

static void change_apply(const struct model *model, const struct change *change, uint8_t *state)
{
    uint8_t *at = state + change_at(model, change);

    if (change->kind == RECORD_WRITE)
        model_content(change->content, change->offset, at, change->length);
    else
        memset(at, 0, change->length);
}

/* The byte that change `number` put at this offset. */
static uint8_t byte_of(const struct model *model, uint32_t number, unsigned image,
                       size_t offset)
{
    uint8_t byte = 0;

    if (number == 0)
        model_content(1 + image, offset, &byte, 1);
    else if (model->changes[number].kind == RECORD_WRITE)
        model_content(model->changes[number].content, offset, &byte, 1);
    return byte;
}

static bool covers(const struct change *change, unsigned image, size_t offset)
{
    return change->image == image && change->offset <= offset &&
           offset < change->offset + change->length;
}

static void forget_states(struct model *model)
{
    memset(model->state_of, 0, sizeof(model->state_of));
}

static void loosen(struct model *model, uint32_t number)
{
    if (model->loose_count == model->loose_room) {
        model->loose_room = model->loose_room == 0 ? 64 : 2 * model->loose_room;
        model->loose = memory_resize(model->loose, model->loose_room * sizeof(*model->loose));
    }
    model->loose[model->loose_count++] = number;
    model->ever_bypassed = true;
    forget_states(model);
}

uint32_t model_admit(struct model *model, const struct change *change)
{
    if (model->count + 1 == model->room) {
        model->room *= 2;
        model->changes = memory_resize(model->changes, model->room * sizeof(*model->changes));
    }
    model->changes[++model->count] = *change;
    if (change->bypass)
        loosen(model, model->count);
    return model->count;
}

void model_answer(struct model *model, uint32_t number)
{
    struct change *change = &model->changes[number];
    uint32_t *floor = model->floor + change_at(model, change);

    assert(number >= 1 && number <= model->count);
    change->answered = true;
    for (uint64_t i = 0; i < change->length; i++) {
        if (floor[i] < number && !(change->bypass && model->image_lost[change->image]))
            floor[i] = number;
    }
    if (change->bypass) {
        change->answer_stamp = model->stamp++;
        model->bounds++;
        return;
    }
    if (model->image_answered[change->image] < number)
        model->image_answered[change->image] = number;
    if (model->answered < number && !model->cache_lost) {
        model->answered = number;
        model->bounds++;
    }
}

uint32_t model_flush_received(const struct model *model, unsigned image)
{
    return model->image_answered[image];
}

/* Only where `limit` says that there is nothing newer; sets the versions of what it wrote, if there
 * are any. */
static void change_apply_newer(const struct model *model, uint32_t number,
                               const uint32_t *limit, uint8_t *state, uint32_t *versions)
{
    const struct change *change = &model->changes[number];
    size_t at = change_at(model, change);
    uint8_t bytes[512] = {0};

    for (uint64_t i = 0; i < change->length; i++) {
        if (i % sizeof(bytes) == 0 && change->kind == RECORD_WRITE)
            model_content(change->content, change->offset + i, bytes, sizeof(bytes));
        if (limit[at + i] >= number)
            continue;
        state[at + i] = bytes[i % sizeof(bytes)];
        if (versions != NULL)
            versions[at + i] = number;
    }
}

/* The base moves up to `number`. */
static void advance_base(struct model *model, uint32_t number)
{
    while (model->durable < number) {
        uint32_t next = ++model->durable;

        if (!model->changes[next].bypass)
            change_apply_newer(model, next, model->base_version, model->base,
                               model->base_version);
        model->bounds++;
    }
}

void model_flush_answered(struct model *model, uint32_t number)
{
    advance_base(model, number);
    if (model->answered < model->durable)
        model->answered = model->durable;
}

void model_cache_lost(struct model *model)
{
    model->answered = model->durable;
    model->cache_lost = true;
}

void model_bypass_ended(struct model *model, uint32_t number, bool ok)
{
    model->changes[number].end_stamp = model->stamp++;
    model->changes[number].covered |= !ok;
    model->changes[number].failed |= !ok;
}

/* Of an image that is lost: the newest change up to `number` that is sure to be there.  What bypassed
 * the journal may be gone again, though a read has seen it or it was answered. */
static uint32_t still_there(const struct model *model, uint32_t number, unsigned image,
                            size_t offset)
{
    uint32_t least = model->base_version[model->image_at[image] + offset];

    if (least > number)
        least = 0; /* a read that began before that */
    while (number > least &&
           (model->changes[number].bypass || !model->changes[number].answered ||
            !covers(&model->changes[number], image, offset)))
        number--;
    return number;
}

static void lower_floor(struct model *model, const struct change *change)
{
    size_t at = change_at(model, change);

    for (uint64_t i = 0; i < change->length; i++)
        model->floor[at + i] =
            still_there(model, model->floor[at + i], change->image, change->offset + i);
}

void model_image_barrier(struct model *model, unsigned image, uint64_t begun, bool ok)
{
    if (ok)
        model->image_uncovered[image] = false;
    else if (model->image_uncovered[image])
        model->image_lost[image] = true;
    for (size_t i = 0; i < model->loose_count; i++) {
        struct change *change = &model->changes[model->loose[i]];

        if (change->image != image)
            continue;
        if (ok)
            change->covered |=
                change->former || (change->end_stamp != 0 && change->end_stamp < begun);
        else if (!change->covered)
            model->image_lost[image] = true;
        if (!ok && change->failed) {
            change->doubtful = true;
            lower_floor(model, change);
        }
    }
    for (size_t i = 0; model->image_lost[image] && i < model->loose_count; i++) {
        if (model->changes[model->loose[i]].image == image)
            lower_floor(model, &model->changes[model->loose[i]]);
    }
    model->bounds++;
}

/* A loose one is certain now: it is in the base, as far as it was there. */
static void tighten(struct model *model, uint32_t number)
{
    const struct change *change = &model->changes[number];
    size_t at = change_at(model, change);

    if (!change->former) {
        change_apply_newer(model, number, model->base_version, model->base,
                           model->base_version);
        return;
    }
    for (uint64_t i = 0; i < change->length; i++) {
        if (model->shown[at + i] != number || model->base_version[at + i] >= number)
            continue;
        model->base[at + i] = byte_of(model, number, change->image, change->offset + i);
        model->base_version[at + i] = number;
    }
}

void model_image_flushed(struct model *model, unsigned image, uint64_t received)
{
    size_t kept = 0;

    for (size_t i = 0; i < model->loose_count; i++) {
        const struct change *change = &model->changes[model->loose[i]];
        bool answered = change->answer_stamp != 0 && change->answer_stamp < received;

        if (change->image == image && (change->former || answered))
            tighten(model, model->loose[i]);
        else
            model->loose[kept++] = model->loose[i];
    }
    if (kept == model->loose_count)
        return;
    model->loose_count = kept;
    model->bounds++;
    forget_states(model);
}

/* All that is loose, and the journaled ones up to k. */
static void apply_all(const struct model *model, uint32_t k, uint8_t *state, uint32_t *versions)
{
    for (size_t i = 0; i < model->loose_count && model->loose[i] <= model->durable; i++)
        change_apply_newer(model, model->loose[i], model->base_version, state, versions);
    for (uint32_t number = model->durable + 1; number <= model->count; number++) {
        if (number <= k || model->changes[number].bypass)
            change_apply_newer(model, number, model->base_version, state, versions);
    }
}

static const uint8_t *state_with_loose(struct model *model, uint32_t k)
{
    uint32_t slot = k % MODEL_STATES;

    if (model->state_of[slot] == k && k != 0)
        return model->states[slot];
    if (model->states[slot] == NULL)
        model->states[slot] = memory_get(model->state_bytes);
    memcpy(model->states[slot], model->base, model->state_bytes);
    apply_all(model, k, model->states[slot], NULL);
    model->state_of[slot] = k;
    return model->states[slot];
}

/* Does kill -9 leave this byte of a loose one, unless a newer one is there? */
static bool is_settled(const struct model *model, uint32_t number, size_t at)
{
    const struct change *change = &model->changes[number];

    return !model->image_lost[change->image] &&
           ((change->answered && !change->former) || model->shown[at] == number ||
            model->floor[at] == number);
}

#define NOBODY UINT32_MAX

/* The newest change that a byte of what is shown after a crash may be from. */
static uint32_t who_wrote(const struct model *model, uint32_t k, bool power, unsigned image,
                          size_t offset, uint8_t byte)
{
    size_t at = model->image_at[image] + offset;
    size_t loose = model->loose_count;

    for (uint32_t number = model->count; number > model->base_version[at]; number--) {
        const struct change *change;

        if (number <= model->durable) { /* of those only loose ones */
            while (loose > 0 && model->loose[loose - 1] > number)
                loose--;
            if (loose == 0 || model->loose[loose - 1] <= model->base_version[at])
                break;
            number = model->loose[loose - 1];
        }
        change = &model->changes[number];
        if (!covers(change, image, offset) || (!change->bypass && number > k))
            continue;
        if (byte == byte_of(model, number, image, offset))
            return number;
        if (!change->bypass || (!power && is_settled(model, number, at)))
            return NOBODY;
    }
    return byte == model->base[at] ? model->base_version[at] : NOBODY;
}

size_t model_judge(struct model *model, uint32_t k, bool power, const uint8_t *shown)
{
    const uint8_t *right = model_state(model, k);

    if (memcmp(shown, right, model->state_bytes) == 0)
        return model->state_bytes;
    for (unsigned i = 0; i < model->image_count; i++) {
        for (size_t b = 0; b < model->image_size[i]; b++) {
            size_t at = model->image_at[i] + b;

            if (shown[at] != right[at] &&
                (!model->ever_bypassed ||
                 who_wrote(model, k, power, i, b, shown[at]) == NOBODY))
                return at;
        }
    }
    return model->state_bytes;
}

const uint8_t *model_state(struct model *model, uint32_t k)
{
    uint32_t slot = k % MODEL_STATES, from;
    const uint8_t *start = model->base;

    assert(k >= model->durable && k <= model->count);
    if (model->ever_bypassed)
        return state_with_loose(model, k);
    if (k == model->durable)
        return model->base;
    if (model->state_of[slot] == k)
        return model->states[slot];
    for (from = k - 1; from > model->durable; from--) {
        if (model->state_of[from % MODEL_STATES] == from) {
            start = model->states[from % MODEL_STATES];
            break;
        }
    }
    if (model->states[slot] == NULL)
        model->states[slot] = memory_get(model->state_bytes);
    if (start != model->states[slot])
        memcpy(model->states[slot], start, model->state_bytes);
    while (from < k)
        change_apply(model, &model->changes[++from], model->states[slot]);
    model->state_of[slot] = k;
    return model->states[slot];
}

uint32_t model_count_upto(const struct model *model, uint64_t lsn)
{
    uint32_t low = 0, high = model->count;

    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;

        if (model->changes[middle].lsn <= lsn)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void remember_gone(struct model *model, const struct change *change)
{
    if (model->gone_count == model->gone_room) {
        model->gone_room = model->gone_room == 0 ? 64 : 2 * model->gone_room;
        model->gone = memory_resize(model->gone, model->gone_room * sizeof(*model->gone));
    }
    model->gone[model->gone_count++] = *change;
}

/* Sets model->shown. */
static void note_shown(struct model *model, uint32_t k, bool power, const uint8_t *shown)
{
    uint8_t *state = memory_get(model->state_bytes);
    uint32_t *versions = memory_get(model->state_bytes * sizeof(*versions));

    memcpy(state, model->base, model->state_bytes);
    memcpy(versions, model->base_version, model->state_bytes * sizeof(*versions));
    apply_all(model, k, state, versions);
    for (unsigned i = 0; i < model->image_count; i++) {
        for (size_t b = 0; b < model->image_size[i]; b++) {
            size_t at = model->image_at[i] + b;

            if (shown[at] != state[at])
                versions[at] = who_wrote(model, k, power, i, b, shown[at]);
            assert(versions[at] != NOBODY);
        }
    }
    memcpy(model->shown, versions, model->state_bytes * sizeof(*versions));
    free(state);
    free(versions);
}

static void renumber(uint32_t *numbers, size_t count, uint32_t k, const uint32_t *now)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] > k)
            numbers[i] = now[numbers[i] - k];
    }
}

/* The changes behind k are gone; what bypassed the journal moves up. */
static void take_back(struct model *model, uint32_t k)
{
    uint32_t *now = memory_get((model->count - k + 1) * sizeof(*now));
    uint32_t kept = k;

    for (uint32_t number = k + 1; number <= model->count; number++) {
        struct change *change = &model->changes[number];

        if (!change->bypass) {
            remember_gone(model, change);
            continue;
        }
        change->lsn = model->changes[k].lsn;
        model->changes[++kept] = *change;
        now[number - k] = kept;
    }
    model->count = kept;
    renumber(model->loose, model->loose_count, k, now);
    renumber(model->base_version, model->state_bytes, k, now);
    renumber(model->shown, model->state_bytes, k, now);
    free(now);
}

static void crash_with_loose(struct model *model, uint32_t k, bool durable,
                             const uint8_t *shown)
{
    note_shown(model, k, durable, shown);
    take_back(model, k);
    forget_states(model);
    if (durable) {
        memcpy(model->base, shown, model->state_bytes);
        memcpy(model->base_version, model->shown, model->state_bytes * sizeof(*model->shown));
        model->durable = model->count;
        model->loose_count = 0;
    }
    for (size_t i = 0; i < model->loose_count; i++) {
        struct change *change = &model->changes[model->loose[i]];

        change->former = true;
        change->covered = false;
    }
    memcpy(model->floor, model->shown, model->state_bytes * sizeof(*model->floor));
}

void model_crash(struct model *model, uint32_t k, bool durable, const uint8_t *shown)
{
    assert(k >= model->durable && k <= model->count);
    if (model->ever_bypassed) {
        crash_with_loose(model, k, durable, shown);
    } else {
        take_back(model, k);
        for (unsigned i = 0; i < MODEL_STATES; i++) {
            if (model->state_of[i] > k)
                model->state_of[i] = 0;
        }
        if (durable)
            advance_base(model, k);
        /* What the restarted server shows is what it has answered: P0, P7. */
        memcpy(model->floor, model->base_version, model->state_bytes * sizeof(*model->floor));
    }
    memset(model->image_answered, 0, sizeof(model->image_answered));
    memset(model->image_lost, 0, sizeof(model->image_lost));
    model->answered = model->durable;
    model->cache_lost = false;
    for (uint32_t number = model->durable + 1; number <= model->count; number++) {
        if (!model->changes[number].bypass)
            model_answer(model, number);
    }
    model->bounds++;
}

/* The array of one entry a byte of the state, with another layout. */
static void *laid_out(void *old, size_t entry, const struct model *before,
                      const struct model *after)
{
    uint8_t *from = old, *to = memory_get(after->state_bytes * entry);

    for (unsigned i = 0; i < after->image_count; i++) {
        size_t kept = before->image_size[i] < after->image_size[i] ? before->image_size[i]
                                                                   : after->image_size[i];

        memcpy(to + after->image_at[i] * entry, from + before->image_at[i] * entry,
               kept * entry);
    }
    free(old);
    return to;
}

void model_resize(struct model *model, unsigned image, size_t size, uint64_t lsn)
{
    const struct model before = *model;
    struct change change = {.image = image, .kind = RECORD_ZERO, .lsn = lsn};
    uint32_t number;

    assert(model->durable == model->count && model->loose_count == 0 && !model->cache_lost);
    model->image_size[image] = size;
    model->state_bytes = 0;
    for (unsigned i = 0; i < model->image_count; i++) {
        model->image_at[i] = model->state_bytes;
        model->state_bytes += model->image_size[i];
    }
    model->base = laid_out(model->base, 1, &before, model);
    model->base_version =
        laid_out(model->base_version, sizeof(*model->base_version), &before, model);
    model->floor = laid_out(model->floor, sizeof(*model->floor), &before, model);
    model->shown = laid_out(model->shown, sizeof(*model->shown), &before, model);
    for (unsigned i = 0; i < MODEL_STATES; i++) {
        free(model->states[i]);
        model->states[i] = NULL;
        model->state_of[i] = 0;
    }
    if (size <= before.image_size[image])
        return;
    change.offset = before.image_size[image];
    change.length = size - change.offset;
    number = model_admit(model, &change);
    model_answer(model, number);
    model_flush_answered(model, number);
}

void model_read_begin(const struct model *model, unsigned image, size_t offset, size_t count,
                      uint32_t *floors)
{
    memcpy(floors, model->floor + model->image_at[image] + offset, count * sizeof(*floors));
}

size_t model_read_end(struct model *model, unsigned image, size_t offset, size_t count,
                      const uint32_t *floors, const uint8_t *bytes)
{
    uint32_t *floor = model->floor + model->image_at[image] + offset;

    for (size_t i = 0; i < count; i++) {
        uint32_t number = floors[i];

        if (model->image_lost[image]) /* since it began */
            number = still_there(model, number, image, offset + i);
        /* The oldest version that fits: it proves least. */
        while (bytes[i] != byte_of(model, number, image, offset + i)) {
            do {
                number++;
            } while (number <= model->count &&
                     !covers(&model->changes[number], image, offset + i));
            if (number > model->count)
                return i;
        }
        if (floor[i] < number && !model->changes[number].doubtful &&
            !(model->image_lost[image] && model->changes[number].bypass))
            floor[i] = number;
    }
    return count;
}

void model_explain(const struct model *model, unsigned image, size_t offset, uint8_t byte,
                   char *words, size_t words_size)
{
    int used = snprintf(words, words_size, "0x%02x:", byte);

    for (uint32_t number = model->count + 1; number-- > 0;) {
        if (number > 0 && !covers(&model->changes[number], image, offset))
            continue;
        if (byte_of(model, number, image, offset) == byte && used < (int)words_size)
            used += snprintf(words + used, words_size - used, " change %u (lsn %llu)", number,
                             number > 0 ? (unsigned long long)model->changes[number].lsn : 0);
    }
    for (size_t i = model->gone_count; i-- > 0;) {
        const struct change *change = &model->gone[i];
        uint8_t gone = 0;

        if (!covers(change, image, offset))
            continue;
        if (change->kind == RECORD_WRITE)
            model_content(change->content, offset, &gone, 1);
        if (gone == byte && used < (int)words_size)
            used += snprintf(words + used, words_size - used, " lost change (lsn %llu)",
                             (unsigned long long)change->lsn);
    }
}
