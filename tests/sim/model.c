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

uint32_t model_admit(struct model *model, const struct change *change)
{
    if (model->count + 1 == model->room) {
        model->room *= 2;
        model->changes = memory_resize(model->changes, model->room * sizeof(*model->changes));
    }
    model->changes[++model->count] = *change;
    return model->count;
}

void model_answer(struct model *model, uint32_t number)
{
    struct change *change = &model->changes[number];
    uint32_t *floor = model->floor + change_at(model, change);

    assert(number >= 1 && number <= model->count);
    change->answered = true;
    for (uint64_t i = 0; i < change->length; i++) {
        if (floor[i] < number)
            floor[i] = number;
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

/* The base moves up to `number`. */
static void advance_base(struct model *model, uint32_t number)
{
    while (model->durable < number) {
        const struct change *change = &model->changes[++model->durable];
        uint32_t *version = model->base_version + change_at(model, change);

        change_apply(model, change, model->base);
        for (uint64_t i = 0; i < change->length; i++)
            version[i] = model->durable;
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

const uint8_t *model_state(struct model *model, uint32_t k)
{
    uint32_t slot = k % MODEL_STATES, from;
    const uint8_t *start = model->base;

    assert(k >= model->durable && k <= model->count);
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

void model_crash(struct model *model, uint32_t k, bool durable)
{
    assert(k >= model->durable && k <= model->count);
    for (uint32_t number = k + 1; number <= model->count; number++)
        remember_gone(model, &model->changes[number]);
    model->count = k;
    for (unsigned i = 0; i < MODEL_STATES; i++) {
        if (model->state_of[i] > k)
            model->state_of[i] = 0;
    }
    if (durable)
        advance_base(model, k);
    /* What the restarted server shows is what it has answered: P0, P7. */
    memcpy(model->floor, model->base_version, model->state_bytes * sizeof(*model->floor));
    memset(model->image_answered, 0, sizeof(model->image_answered));
    model->answered = model->durable;
    model->cache_lost = false;
    for (uint32_t number = model->durable + 1; number <= k; number++)
        model_answer(model, number);
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

    assert(model->durable == model->count && !model->cache_lost);
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

size_t model_read_end(struct model *model, unsigned image, size_t offset, size_t count,
                      const uint32_t *floors, const uint8_t *bytes)
{
    uint32_t *floor = model->floor + model->image_at[image] + offset;

    for (size_t i = 0; i < count; i++) {
        uint32_t number = floors[i];

        /* The oldest version that fits: it proves least. */
        while (bytes[i] != byte_of(model, number, image, offset + i)) {
            do {
                number++;
            } while (number <= model->count &&
                     !covers(&model->changes[number], image, offset + i));
            if (number > model->count)
                return i;
        }
        if (floor[i] < number)
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
