/* read: where the newest answered bytes are.
 *
 * One pass over the map.  A version's bytes in the ring never change while it is pinned, and
 * the map changes only by publication and by retirement after an image was flushed; so a plan
 * stays right while it is carried out (P7). The image's part stays right too: a checkpoint that
 * would write there waits for the readers that began before it (checkpoint.c).
 *
 * A pin holds the tail of its time, not the place of each segment: pins are then ordered by age
 * and one comparison finds the oldest.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core_state.h"

void core_pin(struct core *c, struct read_pin *pin)
{
    pin->number = c->pin_next++;
    pin->tail_position = c->tail.position;
    pin->published_position = c->published_position;
    TAILQ_INSERT_TAIL(&c->pins, pin, link);
}

void core_unpin(struct core *c, struct read_pin *pin)
{
    bool oldest = TAILQ_FIRST(&c->pins) == pin;

    TAILQ_REMOVE(&c->pins, pin, link);
    if (oldest)
        c->space_generation++; /* whom it held back may try again */
}

static int plan_add(struct read_plan *plan, enum read_source source, uint64_t offset,
                    uint64_t length, uint64_t position)
{
    if (plan->count == plan->room) {
        size_t room = plan->room * 2;
        struct read_segment *grown;
        bool is_inline = plan->segments == plan->inline_segments;

        grown = realloc(is_inline ? NULL : plan->segments, room * sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        if (is_inline)
            memcpy(grown, plan->segments, plan->count * sizeof(*grown));
        plan->segments = grown;
        plan->room = room;
    }
    plan->segments[plan->count++] = (struct read_segment){source, offset, length, position};
    return 0;
}

static void plan_free(struct read_plan *plan)
{
    if (plan->segments != plan->inline_segments)
        free(plan->segments);
}

int core_read_begin(struct core *c, const struct core_image *image, uint64_t offset,
                    uint64_t length, struct read_plan *plan)
{
    uint64_t end = offset + length;
    struct version *v = map_find((struct map *)&image->map, offset);
    int r = 0;

    assert(length > 0 && end <= image->entry.size);
    plan->segments = plan->inline_segments;
    plan->count = 0;
    plan->room = sizeof(plan->inline_segments) / sizeof(plan->inline_segments[0]);

    while (offset < end && r == 0) {
        enum read_source source = READ_IMAGE;
        uint64_t upto = end, position = 0;

        if (v != NULL && v->offset <= offset) {
            uint64_t v_end = v->offset + v->length;
            upto = v_end < end ? v_end : end;
            source = v->position == MAP_TRIM   ? READ_TRIMMED
                     : v->position == MAP_ZERO ? READ_ZERO
                                               : READ_JOURNAL;
            if (source == READ_JOURNAL)
                position = v->position + (offset - v->offset);
            v = map_next(v);
        } else if (v != NULL && v->offset < end) {
            upto = v->offset;
        }
        r = plan_add(plan, source, offset, upto - offset, position);
        offset = upto;
    }
    if (r < 0) {
        plan_free(plan);
        return r;
    }
    core_pin(c, &plan->pin);
    return 0;
}

void core_read_end(struct core *c, struct read_plan *plan)
{
    core_unpin(c, &plan->pin);
    plan_free(plan);
}
