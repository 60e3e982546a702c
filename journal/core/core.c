/* core: its life, the table of images, superblocks, the end of all (abort).  See core.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core_state.h"
#include "report.h"

static struct core_image *image_new(struct core *c, const struct image_entry *entry)
{
    struct core_image *image = calloc(1, sizeof(*image));

    if (image == NULL)
        return NULL;
    image->entry = *entry;
    map_init(&image->map, &c->pool);
    TAILQ_INSERT_TAIL(&c->images, image, link);
    c->image_count++;
    return image;
}

int core_create(struct core **out, const struct superblock *sb, size_t map_bytes_max)
{
    struct core *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return -ENOMEM;
    c->sb = *sb;
    c->sb.images = NULL;
    c->sb.image_count = 0;
    c->seed = format_seed(sb->uuid);
    c->epoch = sb->epoch;
    c->tail = c->durable = sb->tail;
    c->head = c->published_position = sb->tail.position;
    c->submitted_position = c->staged_position = sb->tail.position;
    c->last_lsn = c->published_lsn = sb->tail.lsn;
    c->last_chain = sb->tail.chain;
    c->prewritten = sb->ring_written;
    c->space_generation = 1;
    TAILQ_INIT(&c->images);
    TAILQ_INIT(&c->inflight);
    TAILQ_INIT(&c->claims);
    TAILQ_INIT(&c->pins);
    map_pool_init(&c->pool, map_bytes_max);
    pace_reset(c);
    gap_reset(c);
    c->super_bytes = malloc(sb->super_bytes);
    c->super_table = calloc(format_images_max(sb), sizeof(struct image_entry));
    if (c->super_bytes == NULL || c->super_table == NULL)
        goto err;
    for (uint32_t i = 0; i < sb->image_count; i++) {
        if (image_new(c, &sb->images[i]) == NULL)
            goto err;
    }
    *out = c;
    return 0;

err:
    core_destroy(c);
    return -ENOMEM;
}

void core_destroy(struct core *c)
{
    struct core_image *image;

    if (c == NULL)
        return;
    assert(TAILQ_EMPTY(&c->inflight) && TAILQ_EMPTY(&c->claims) && TAILQ_EMPTY(&c->pins));
    while ((image = TAILQ_FIRST(&c->images)) != NULL) {
        TAILQ_REMOVE(&c->images, image, link);
        free(image);
    }
    map_pool_destroy(&c->pool);
    free(c->super_bytes);
    free(c->super_table);
    free(c);
}

void core_staging_set(struct core *c, uint64_t bytes, const uint8_t boot[FORMAT_UUID_BYTES],
                      uint32_t uid)
{
    assert(c->life == CORE_INERT);
    c->unsubmitted_max = bytes / 2;
    c->sb.staging_bytes = bytes;
    c->sb.staging_uid = bytes > 0 ? uid : 0;
    memcpy(c->sb.staging_boot, boot, FORMAT_UUID_BYTES);
}

uint64_t core_seed(const struct core *c)
{
    return c->seed;
}

/* ---- images ---- */

struct core_image *core_image_find(struct core *c, uint32_t id)
{
    struct core_image *image;

    TAILQ_FOREACH (image, &c->images, link) {
        if (image->entry.id == id)
            return image;
    }
    return NULL;
}

const struct image_entry *core_image_entry(const struct core_image *image)
{
    return &image->entry;
}

struct core_image *core_image_next(struct core *c, struct core_image *image)
{
    return image == NULL ? TAILQ_FIRST(&c->images) : TAILQ_NEXT(image, link);
}

uint64_t core_tail_position(const struct core *c)
{
    return c->tail.position;
}

uint64_t core_image_dirty_bytes(const struct core_image *image)
{
    return image->map.payload_bytes;
}

uint64_t core_image_home_bytes(const struct core_image *image)
{
    return image->home_bytes;
}

bool core_image_is_home(const struct core *c, const struct core_image *image)
{
    const struct append *a;

    TAILQ_FOREACH (a, &c->inflight, link) {
        if (a->image == image)
            return false;
    }
    return map_empty(&image->map) && c->checkpoint.phase == CHECKPOINT_IDLE &&
           !core_image_has_undurable(image);
}

struct core_image *core_image_add(struct core *c, const struct image_entry *entry, int *error)
{
    struct core_image *image;
    struct image_entry fresh = *entry;

    TAILQ_FOREACH (image, &c->images, link) {
        if (memcmp(image->entry.uuid, entry->uuid, FORMAT_UUID_BYTES) == 0) {
            fresh.id = image->entry.id;
            image->entry = fresh;
            return image;
        }
    }
    if (c->image_count >= format_images_max(&c->sb)) {
        *error = -ENOSPC;
        return NULL;
    }
    fresh.id = c->sb.next_image_id;
    image = image_new(c, &fresh);
    if (image == NULL) {
        *error = -ENOMEM;
        return NULL;
    }
    c->sb.next_image_id++;
    return image;
}

bool core_image_reuse(struct core *c, struct core_image *image, const struct image_entry *entry)
{
    if ((image->entry.flags & IMAGE_FLAG_PENDING) || !map_empty(&image->map) ||
        image->published_lsn != 0 || image->copied || core_image_has_undurable(image))
        return false;
    image->entry = *entry;
    image->entry.id = c->sb.next_image_id++;
    image->home_bytes = 0;
    return true;
}

void core_image_drop(struct core *c, struct core_image *image)
{
    uint64_t cursor = 0;

    while (!map_retire(&image->map, UINT64_MAX, &cursor, SIZE_MAX))
        ;
    TAILQ_REMOVE(&c->images, image, link);
    c->image_count--;
    free(image);
}

/* ---- superblocks ---- */

/* Plans the next superblock: the copy that does not count now is overwritten. */
void core_super_plan(struct core *c, struct super_plan *plan, const struct ring_mark *tail,
                     uint32_t state, uint64_t now_us)
{
    struct superblock sb = c->sb;
    struct image_entry *table = c->super_table;
    struct core_image *image;
    uint32_t i = 0;

    assert(!c->super_in_flight);
    TAILQ_FOREACH (image, &c->images, link) {
        table[i] = image->entry;
        if (state & SUPER_STATE_CLEAN)
            table[i].flags &= ~(IMAGE_FLAG_PENDING | IMAGE_FLAG_BYPASS);
        i++;
    }
    sb.images = table;
    sb.image_count = i;
    sb.generation = c->sb.generation + 1;
    sb.epoch = c->epoch;
    sb.state = state;
    sb.tail = *tail;
    sb.ring_written = c->prewritten;
    sb.updated_us = now_us;
    if (state & SUPER_STATE_CLEAN) {
        sb.staging_bytes = 0;
        sb.staging_uid = 0;
        memset(sb.staging_boot, 0, FORMAT_UUID_BYTES);
    }
    format_super_encode(&sb, c->super_bytes);

    plan->offset = (sb.generation % 2) * c->sb.super_bytes;
    if (PLANTED(13)) /* always the same copy */
        plan->offset = 0;
    plan->bytes = c->super_bytes;
    plan->bytes_count = FORMAT_HEADER_BYTES + (size_t)i * FORMAT_IMAGE_BYTES;
    plan->bytes_count = round_up(plan->bytes_count, FORMAT_HEADER_BYTES);
    plan->generation = sb.generation;
    plan->tail = *tail;
    plan->clean = state & SUPER_STATE_CLEAN;
    c->super_in_flight = true;
}

int core_super_begin(struct core *c, uint64_t now_us, struct super_plan *plan)
{
    if (c->error != 0)
        return -EIO;
    if (c->super_in_flight)
        return -EBUSY;
    core_super_plan(c, plan, &c->tail, 0, now_us);
    return 0;
}

int core_activate(struct core *c, uint64_t now_us, struct super_plan *plan)
{
    assert(c->life == CORE_INERT && !c->super_in_flight);
    if (c->error != 0)
        return -EIO;
    if (c->epoch == UINT32_MAX) {
        report_error("the journal was opened 2^32 times: drain it (nbdjournal replay) "
                     "and create a new one");
        return -EIO;
    }
    if (!PLANTED(3) || c->epoch == 0) /* the epoch changes the first time only */
        c->epoch++;
    core_super_plan(c, plan, &c->tail, 0, now_us);
    return 0;
}

void core_remember_mark(struct core *c, const struct ring_mark *mark)
{
    const struct ring_mark *last = c->mark_count > 0 ? &c->marks[c->mark_count - 1] : &c->tail;

    if (c->mark_count < CORE_MARKS && mark->position % c->sb.sector_bytes == 0 &&
        mark->position - last->position >= c->sb.ring_bytes / CORE_MARKS)
        c->marks[c->mark_count++] = *mark;
}

static void forget_marks(struct core *c)
{
    unsigned gone = 0;

    while (gone < c->mark_count && c->marks[gone].position <= c->tail.position)
        gone++;
    c->mark_count -= gone;
    memmove(c->marks, c->marks + gone, c->mark_count * sizeof(c->marks[0]));
}

void core_super_end(struct core *c, struct super_plan *plan, int error)
{
    assert(c->super_in_flight);
    c->super_in_flight = false;
    if (error != 0 && !PLANTED(41)) { /* the next superblock will do */
        core_abort(c, error);
        return;
    }
    c->sb.generation = plan->generation;
    if (plan->tail.lsn >= c->retired_lsn) /* else some are still in front of it */
        c->retired_nodes = 0;
    c->older_tail_lsn = c->tail.lsn;
    c->tail = plan->tail;
    forget_marks(c);
    if (c->life == CORE_INERT)
        c->life = CORE_ACTIVATED;
    if (plan->clean)
        c->life = CORE_STOPPED;
    core_space_changed(c);
}

/* The records that are given up still stand in the ring, whole, right behind the tail that the
 * CLEAN superblock will name.  So that no later recovery takes them for what follows it, or for
 * witnesses of damage, that tail is of this epoch, which has no record, and has an lsn beyond
 * all of them (and beyond those of a torn end: format.h). */
int core_cut(struct core *c)
{
    uint64_t lsn = format_lsn_beyond(&c->tail, c->epoch, c->sb.ring_bytes);

    assert(c->life == CORE_ACTIVATED && c->checkpoint.phase == CHECKPOINT_IDLE);
    assert(lsn > c->last_lsn);
    if (lsn >= FORMAT_LSN_MAX - 2)
        return -EOVERFLOW;
    c->last_lsn = c->published_lsn = c->durable.lsn = lsn;
    c->durable.epoch = c->epoch;
    return 0;
}

/* ---- abort, numbers ---- */

/* P4: from here on nothing is admitted and nothing is reported durable.  Appends that are still
 * being copied fail when their copy ends (their memory is in use until then); those that wait
 * for them fail now. */
void core_abort(struct core *c, int error)
{
    struct append *a, *next;

    if (c->error == 0) {
        c->error = error;
        report_debug("journal aborted: error %d", -error);
    }
    for (a = TAILQ_FIRST(&c->inflight); a != NULL; a = next) {
        next = TAILQ_NEXT(a, link);
        if (a->state != APPEND_COPIED)
            continue;
        TAILQ_REMOVE(&c->inflight, a, link);
        a->state = APPEND_FAILED;
        if (a->image != NULL)
            map_unreserve(&c->pool);
    }
    core_space_changed(c);
}

bool core_aborted(const struct core *c)
{
    return c->error != 0;
}

void core_stats_get(const struct core *c, struct core_stats *stats)
{
    *stats = c->stats;
    stats->ring_bytes = c->sb.ring_bytes;
    stats->used_bytes = c->head - c->tail.position;
    stats->head_position = c->head;
    stats->last_lsn = c->last_lsn;
    stats->published_lsn = c->published_lsn;
    stats->durable_lsn = c->durable.lsn;
    stats->epoch = c->epoch;
    stats->map_nodes = c->pool.used;
    stats->aborted = c->error != 0;
    stats->image_error = c->image_error;
}
