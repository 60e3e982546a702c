/* serve_read: reads, extents, and the prefetching of cache.
 *
 * The map is asked under the lock; the bytes are fetched without it.  What the plan names in
 * the journal is pinned until core_read_end, and a checkpoint that would write what the plan
 * names in the image waits for it: so the plan stays true while it is carried out (P7).
 *
 * While nothing waits in the journal, a read needs neither: many threads would queue for the
 * lock.  If a change was admitted meanwhile, it may have gone home under the read, which then is
 * done again in the other way.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine_state.h"
#include "report.h"

static int plan_begin(struct engine_disk *d, uint64_t offset, uint64_t count,
                      struct read_plan *plan) EXCLUDES_LOCK
{
    struct engine *e = d->engine;
    int r;
    LOCK_SCOPE(&e->lock);

    engine_touch_locked(e);
    while (e->journal_changing)
        condition_wait(&e->activated, &e->lock);
    r = core_read_begin(e->core, d->image, offset, count, plan);
    if (r == 0)
        e->plans++;
    return r;
}

static void plan_end(struct engine_disk *d, struct read_plan *plan) EXCLUDES_LOCK
{
    struct engine *e = d->engine;
    LOCK_SCOPE(&e->lock);

    core_read_end(e->core, plan);
    e->plans--;
    if (e->plans == 0 && e->journal_changing)
        condition_broadcast(&e->activated);
    /* A checkpoint may wait for this reader, an append for the space that it pinned. */
    if (e->checkpoint_running && core_checkpoint_readers_gone(e->core))
        condition_signal(&e->readers);
    engine_announce_locked(e);
}

static int segment_read(struct engine_disk *d, const struct read_segment *segment, uint8_t *buf)
{
    struct engine *e = d->engine;
    struct storage *from = d->storage;
    uint64_t offset = segment->offset;
    int r;

    switch (segment->source) {
    case READ_TRIMMED:
    case READ_ZERO:
        memset(buf, 0, segment->length);
        return 0;
    case READ_JOURNAL:
        from = e->journal.storage;
        offset = engine_file_offset(e, segment->position);
        break;
    case READ_IMAGE:
        break;
    }
    r = storage_read(from, buf, segment->length, offset);
    if (r < 0) {
        report_error("%s %s: read of %" PRIu64 " bytes at %" PRIu64 " failed: %s",
                     from == d->storage ? "image" : "journal", from->name, segment->length,
                     offset, report_reason(-r));
    }
    return r;
}

static bool drained_read(struct engine_disk *d, uint8_t *buf, uint32_t count, uint64_t offset)
{
    struct engine *e = d->engine;
    uint64_t drained = atomic_load(&e->drained);

    if (drained == 0 || storage_read(d->storage, buf, count, offset) < 0)
        return false; /* an error is for the other way to report */
    /* Not a plain load: that might be done before the read. */
    return atomic_compare_exchange_strong(&e->drained, &drained, drained);
}

int engine_read(struct engine_disk *d, void *buf, uint32_t count, uint64_t offset)
{
    struct read_plan plan;
    uint8_t *bytes = buf;
    int r;

    if (count == 0 || drained_read(d, buf, count, offset))
        return 0;
    r = plan_begin(d, offset, count, &plan);
    if (r < 0)
        return r;
    for (size_t i = 0; i < plan.count && r == 0; i++) {
        r = segment_read(d, &plan.segments[i], bytes);
        bytes += plan.segments[i].length;
    }
    plan_end(d, &plan);
    return r;
}

int engine_cache(struct engine_disk *d, uint32_t count, uint64_t offset)
{
    struct read_plan plan;
    int r;

    if (count == 0)
        return 0;
    r = plan_begin(d, offset, count, &plan);
    if (r < 0)
        return r;
    for (size_t i = 0; i < plan.count; i++) {
        const struct read_segment *segment = &plan.segments[i];

        if (segment->source == READ_IMAGE)
            storage_read_ahead(d->storage, segment->offset, segment->length);
        else if (segment->source == READ_JOURNAL)
            storage_read_ahead(d->engine->journal.storage,
                               engine_file_offset(d->engine, segment->position),
                               segment->length);
    }
    plan_end(d, &plan);
    return 0;
}

/* ---- extents ---- */

/* Most of a range that is looked up in the map at once: bounds the memory of a plan, and the
 * time that it pins the journal. */
#define EXTENTS_WINDOW (UINT32_C(64) << 20)

/* Merges what follows each other, and hands it on when something else comes. */
struct extent_merge {
    int (*add)(void *opaque, uint64_t offset, uint64_t length, enum engine_extent kind);
    void *opaque;
    enum engine_extent kind;
    uint64_t offset, length; /* length 0: nothing yet */
};

static int merge_flush(struct extent_merge *m)
{
    uint64_t length = m->length;

    m->length = 0;
    return length == 0 ? 0 : m->add(m->opaque, m->offset, length, m->kind);
}

static int merge_add(struct extent_merge *m, uint64_t offset, uint64_t length,
                     enum engine_extent kind)
{
    int r;

    if (m->length != 0 && m->kind == kind) {
        m->length += length;
        return 0;
    }
    r = merge_flush(m);
    m->kind = kind;
    m->offset = offset;
    m->length = length;
    return r;
}

static int image_extents(struct engine_disk *d, const struct read_segment *segment,
                         struct extent_merge *m)
{
    uint64_t offset = segment->offset, end = offset + segment->length;
    int r = 0;

    while (offset < end && r == 0) {
        enum storage_extent_kind kind;
        uint64_t count;

        r = storage_extent(d->storage, offset, &kind, &count);
        if (r < 0) {
            report_error("image %s: looking for holes at %" PRIu64 " failed: %s",
                         d->storage->name, offset, report_reason(-r));
            return r;
        }
        if (count > end - offset)
            count = end - offset;
        r = merge_add(m, offset, count, kind == STORAGE_HOLE ? ENGINE_HOLE_ZERO : ENGINE_DATA);
        offset += count;
    }
    return r;
}

static int window_extents(struct engine_disk *d, uint64_t offset, uint64_t count,
                          struct extent_merge *m)
{
    struct read_plan plan;
    int r = plan_begin(d, offset, count, &plan);

    if (r < 0)
        return r;
    for (size_t i = 0; i < plan.count && r == 0; i++) {
        const struct read_segment *segment = &plan.segments[i];

        switch (segment->source) {
        case READ_IMAGE:
            r = image_extents(d, segment, m);
            break;
        case READ_JOURNAL:
            r = merge_add(m, segment->offset, segment->length, ENGINE_DATA);
            break;
        case READ_TRIMMED:
            r = merge_add(m, segment->offset, segment->length, ENGINE_HOLE_ZERO);
            break;
        case READ_ZERO:
            r = merge_add(m, segment->offset, segment->length, ENGINE_ZERO);
            break;
        }
    }
    plan_end(d, &plan);
    return r;
}

int engine_extents(struct engine_disk *d, uint32_t count, uint64_t offset,
                   int (*add)(void *opaque, uint64_t offset, uint64_t length,
                              enum engine_extent kind),
                   void *opaque)
{
    struct extent_merge merge = {.add = add, .opaque = opaque};
    int r = 0;

    while (count > 0 && r == 0) {
        uint32_t window = count < EXTENTS_WINDOW ? count : EXTENTS_WINDOW;

        r = window_extents(d, offset, window, &merge);
        offset += window;
        count -= window;
    }
    if (r == 0)
        r = merge_flush(&merge);
    return r < 0 ? r : 0;
}
