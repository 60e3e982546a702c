/* drain: see drain.h. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "drain.h"
#include "progress.h"
#include "report.h"
#include "staging.h"

/* A trim may be as long as the image, and where holes are not possible zeroes are written: in
 * pieces, for the bar's sake. */
#define ZERO_PIECE (UINT64_C(256) << 20)

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int failed(const char *name, const char *what, int error)
{
    report_error("%s: %s failed: %s; nothing is lost: mend it and replay again", name, what,
                 strerror(-error));
    return error;
}

/* What bypassed the journal can't be written again from it (P4). */
static int failed_bypassed(const char *name, int error)
{
    report_error("%s: flushing failed: %s; large writes that went straight to it and that no "
                 "client has flushed may be lost",
                 name, strerror(-error));
    return error;
}

/* ---- the images ---- */

static uint64_t waiting_records(const struct survey *s, const struct image_entry *entry)
{
    return s->images[entry - s->jf.sb.images].records;
}

static bool is_opened(const struct drain *d, const struct image_entry *entry)
{
    for (size_t i = 0; i < d->image_count; i++) {
        if (d->images[i].entry == entry)
            return true;
    }
    return false;
}

/* False and reported: this file is not an image of this journal. */
static bool compare_image(struct drain *d, struct drain_image *image, const char *path)
{
    const struct survey *s = d->survey;
    struct image_mark mark;

    if (image_mark_read(image->storage, &mark) < 0 ||
        image_identify(image->storage, &image->now) < 0)
        return false;
    image->has_mark = mark.present;
    switch (image_compare(&s->jf, s->state == JOURNAL_CLEAN, image->storage, &mark, &image->now,
                          &image->entry)) {
    case MATCH_KNOWN:
    case MATCH_CLEAN:
        break;
    case MATCH_NEW:
        report_error("%s: it is no image of the journal %s: see nbdjournal info %s", path,
                     s->jf.storage->name, s->jf.storage->name);
        return false;
    case MATCH_REFUSED:
        return false;
    }
    return true;
}

/* Asked before it is opened for us alone, which a second time would not succeed. */
static bool is_given_twice(const struct drain *d, const char *path)
{
    struct storage *image;
    bool twice = false;

    if (d->image_count == 0 || storage_open_file(&image, path, "image", true, false, false) < 0)
        return false;
    for (size_t i = 0; i < d->image_count; i++)
        twice = twice || storage_same(image, d->images[i].storage);
    storage_close(image);
    if (twice)
        report_error("%s: this image was given twice", path);
    return twice;
}

static enum tool_exit open_image(struct drain *d, const char *path)
{
    struct drain_image *image = &d->images[d->image_count];

    *image = (struct drain_image){0};
    if (is_given_twice(d, path) ||
        storage_open_file(&image->storage, path, "image", false, false, true) < 0)
        return TOOL_FAILED;
    if (!compare_image(d, image, path)) {
        storage_close(image->storage);
        return TOOL_FAILED;
    }
    d->image_count++;
    return TOOL_OK;
}

/* Does what is at this path bear a mark of this journal? */
static bool has_our_mark(const struct drain *d, const char *path)
{
    struct storage *image;
    struct image_mark mark;
    bool ours;

    if (access(path, F_OK) != 0 ||
        storage_open_file(&image, path, "image", true, false, false) < 0)
        return false;
    ours = image_mark_read(image, &mark) == 0 && mark.present &&
           memcmp(mark.journal_uuid, d->survey->jf.sb.uuid, FORMAT_UUID_BYTES) == 0;
    storage_close(image);
    return ours;
}

/* No record waits, but a server that died may have written straight to it, and said so to clients:
 * it is complete when that is durable.  If what is at this path is another file by now, that is
 * flushed in vain. */
static enum tool_exit flush_bypassed(const struct image_entry *entry)
{
    struct storage *image;
    int r;

    if (!(entry->flags & IMAGE_FLAG_BYPASS) || access(entry->name, F_OK) != 0)
        return TOOL_OK;
    if (storage_open_file(&image, entry->name, "image", true, false, false) < 0)
        return TOOL_FAILED;
    r = storage_barrier(image);
    storage_close(image);
    return r < 0 && failed_bypassed(entry->name, r) < 0 ? TOOL_FAILED : TOOL_OK;
}

/* An image of the table that was not given by path. */
static enum tool_exit open_entry(struct drain *d, const struct image_entry *entry)
{
    const char *journal = d->survey->jf.storage->name;
    uint64_t waiting = waiting_records(d->survey, entry);
    char uuid[37];

    /* No record waits: there may be a mark to remove, and whatever else the image is by now is no
     * matter of ours. */
    if (waiting == 0)
        return has_our_mark(d, entry->name) ? open_image(d, entry->name)
                                            : flush_bypassed(entry);
    if (access(entry->name, F_OK) == 0)
        return open_image(d, entry->name);
    format_uuid_text(entry->uuid, uuid);
    report_error("%s: %" PRIu64 " record%s for this image, and it is not there: %s.  If it "
                 "has moved, give its path: nbdjournal replay %s IMAGE.  If it is gone: "
                 "nbdjournal forget %s %s",
                 entry->name, waiting, waiting == 1 ? " waits" : "s wait", strerror(errno),
                 journal, journal, uuid);
    return TOOL_FAILED;
}

enum tool_exit drain_open(struct drain *d, struct survey *survey, char *const *paths,
                          size_t path_count)
{
    const struct superblock *sb = &survey->jf.sb;
    enum tool_exit result = TOOL_OK;

    *d = (struct drain){.survey = survey};
    d->images = calloc(path_count + sb->image_count + 1, sizeof(*d->images));
    d->buffer = malloc(CHECKPOINT_BYTES);
    if (d->images == NULL || d->buffer == NULL) {
        report_error("%s: %s", survey->jf.storage->name, report_reason(ENOMEM));
        return TOOL_FAILED;
    }
    for (size_t i = 0; i < path_count && result == TOOL_OK; i++)
        result = open_image(d, paths[i]);
    for (uint32_t i = 0; i < sb->image_count && result == TOOL_OK; i++) {
        if (!is_opened(d, &sb->images[i]))
            result = open_entry(d, &sb->images[i]);
    }
    return result;
}

void drain_close(struct drain *d)
{
    core_destroy(d->core);
    for (size_t i = 0; i < d->image_count; i++)
        storage_close(d->images[i].storage);
    free(d->images);
    free(d->buffer);
    *d = (struct drain){0};
}

/* ---- carrying out the core's plans ---- */

static int write_super(struct drain *d, struct super_plan *plan)
{
    struct storage *journal = d->survey->jf.storage;
    int r = storage_write(journal, plan->bytes, plan->bytes_count, plan->offset);

    if (r == 0)
        r = storage_barrier(journal);
    return r < 0 ? failed(journal->name, "writing the superblock", r) : 0;
}

static void advance_bar(struct drain *d, uint64_t bytes)
{
    d->bytes_done += bytes;
    progress_update(NULL, d->bytes_done, d->bytes_total);
}

static int copy_segment(struct drain *d, struct storage *image,
                        const struct checkpoint_segment *segment)
{
    const struct superblock *sb = &d->survey->jf.sb;
    struct storage *journal = d->survey->jf.storage;
    int r;

    assert(segment->length <= CHECKPOINT_BYTES);
    r = storage_read(journal, d->buffer, segment->length,
                     sb->ring_start + segment->position % sb->ring_bytes);
    if (r < 0)
        return failed(journal->name, "reading", r);
    r = storage_write(image, d->buffer, segment->length, segment->offset);
    if (r < 0)
        return failed(image->name, "writing", r);
    advance_bar(d, segment->length);
    return 0;
}

static int zero_segment(struct drain *d, struct storage *image,
                        const struct checkpoint_segment *segment)
{
    uint64_t offset = segment->offset, end = offset + segment->length;

    while (offset < end) {
        uint64_t piece = end - offset < ZERO_PIECE ? end - offset : ZERO_PIECE;
        int r = storage_zero(image, offset, piece, segment->source == READ_TRIMMED);

        if (r < 0)
            return failed(image->name, "zeroing", r);
        offset += piece;
        advance_bar(d, 0);
    }
    return 0;
}

static struct storage *opened(const struct drain *d, const struct core_image *core_image)
{
    for (size_t i = 0; i < d->image_count; i++) {
        if (d->images[i].core_image == core_image)
            return d->images[i].storage;
    }
    return NULL;
}

static struct storage *storage_of(const struct drain *d, const struct core_image *core_image)
{
    struct storage *storage = opened(d, core_image);

    /* Nothing waits for an image that was not opened, so the core never asks for it. */
    assert(storage != NULL);
    return storage;
}

static int carry_out(struct drain *d, struct checkpoint_step *step)
{
    struct storage *image;
    uint64_t covers;
    int r = 0;

    switch (step->kind) {
    case STEP_COPY:
        image = storage_of(d, step->image);
        for (size_t i = 0; i < step->count && r == 0; i++) {
            r = step->segments[i].source == READ_JOURNAL
                    ? copy_segment(d, image, &step->segments[i])
                    : zero_segment(d, image, &step->segments[i]);
        }
        return r;
    case STEP_FLUSH_IMAGE:
        image = opened(d, step->image);
        core_image_flush_begin(step->image, &covers);
        if (image != NULL) /* else nothing waits, and it was seen to by open_entry */
            r = storage_barrier(image);
        core_image_flush_end(d->core, step->image, covers, r);
        return r < 0 ? failed(image->name, "flushing", r) : 0;
    case STEP_SUPER:
        return write_super(d, &step->super);
    case STEP_COMMIT:
    case STEP_READERS:
    case STEP_CARRY:
        /* Nothing is appended or carried, and nobody reads. */
        assert(!"a step that waits for somebody");
        return -EIO;
    case STEP_LOAD:
    case STEP_RETIRE:
    case STEP_DONE:
        break;
    }
    return 0;
}

static int checkpoint(struct drain *d)
{
    struct checkpoint_step *step = malloc(sizeof(*step));
    int r;

    if (step == NULL) {
        report_error("%s: %s", d->survey->jf.storage->name, report_reason(ENOMEM));
        return -ENOMEM;
    }
    r = core_checkpoint_begin(d->core, true);
    while (r == 0) {
        r = core_checkpoint_next(d->core, step, now_us());
        if (r < 0 || step->kind == STEP_DONE)
            break;
        r = carry_out(d, step);
        core_checkpoint_step_end(d->core, step, r);
    }
    free(step);
    return r;
}

/* ---- in order ---- */

/* The core that shall be driven: the survey's, or one that knows only what --to leaves.  The
 * survey's stays as it is found by recovery, so it is used once. */
static enum tool_exit recover(struct drain *d, uint64_t to_lsn, struct recovery_result *result)
{
    struct survey *s = d->survey;
    int r;

    if (to_lsn >= s->result.cut.lsn && s->state != JOURNAL_DAMAGED) {
        d->core = s->core;
        s->core = NULL;
        *result = s->result;
        return TOOL_OK;
    }
    core_destroy(s->core);
    s->core = NULL;
    r = core_create(&d->core, &s->jf.sb, s->jf.sb.ring_bytes + (1u << 20));
    if (r < 0) {
        report_error("%s: %s", s->jf.storage->name, report_reason(ENOMEM));
        return TOOL_FAILED;
    }
    progress_begin("reading");
    r = journal_recover(&s->jf, d->core, to_lsn, NULL, NULL, progress_update, result);
    progress_end();
    if (r < 0)
        return TOOL_FAILED;
    return result->verdict == RECOVERY_DAMAGED ? TOOL_DAMAGED : TOOL_OK;
}

/* Everything that the core would let go of a crash, before the first byte of an image is
 * touched. */
static int settle(struct drain *d, const struct recovery_result *found)
{
    static const uint8_t no_boot[FORMAT_UUID_BYTES];
    struct storage *journal = d->survey->jf.storage;
    uint64_t sector = d->survey->jf.sb.sector_bytes;
    uint64_t end = (found->cut.position + sector - 1) / sector * sector;
    int r = staging_settle(journal, end);

    if (r < 0)
        return failed(journal->name, "flushing", r);
    /* It is on the disk now: the next superblock says that there is no other place to look. */
    core_staging_set(d->core, 0, no_boot, 0);
    return 0;
}

static int mark_image(struct drain *d, struct drain_image *image)
{
    const struct journal_file *jf = &d->survey->jf;
    struct image_entry entry = image->now;
    /* Nothing is appended, so the epoch needs no second mark (attach.h, "Order"). */
    struct image_mark mark = {.present = true, .is_opening = true};
    struct core_stats stats;
    bool supported = false;
    char *path;
    int r;

    /* Before the mark, whose fsync would be the one that is told of a failed writeback. */
    if (image->entry->flags & IMAGE_FLAG_BYPASS) {
        r = storage_barrier(image->storage);
        if (r < 0)
            return failed_bypassed(image->storage->name, r);
    }
    core_stats_get(d->core, &stats);
    memcpy(mark.journal_uuid, jf->sb.uuid, FORMAT_UUID_BYTES);
    memcpy(mark.image_uuid, image->entry->uuid, FORMAT_UUID_BYTES);
    mark.epoch = stats.epoch + 1;
    path = realpath(jf->storage->name, NULL);
    snprintf(mark.journal_path, sizeof(mark.journal_path), "%s",
             path != NULL ? path : jf->storage->name);
    free(path);
    r = image_mark_write(image->storage, &mark, &supported);
    if (r < 0)
        return r;
    image->has_mark = supported;
    memcpy(entry.uuid, image->entry->uuid, FORMAT_UUID_BYTES);
    entry.flags = IMAGE_FLAG_PENDING | (image->entry->flags & IMAGE_FLAG_BYPASS) |
                  (supported ? IMAGE_FLAG_MARKED : 0);
    entry.mark_epoch = mark.epoch;
    image->core_image = core_image_add(d->core, &entry, &r);
    return image->core_image == NULL ? r : 0;
}

static int activate(struct drain *d)
{
    struct super_plan plan;
    int r = core_activate(d->core, now_us(), &plan);

    if (r < 0)
        return r;
    r = write_super(d, &plan);
    core_super_end(d->core, &plan, r);
    return r;
}

/* P5: the images alone are complete, and any other program may use them. */
static enum tool_exit remove_marks(struct drain *d)
{
    enum tool_exit result = TOOL_OK;

    staging_remove(d->survey->jf.storage);
    for (size_t i = 0; i < d->image_count; i++) {
        if (d->images[i].has_mark && image_mark_remove(d->images[i].storage) < 0)
            result = TOOL_FAILED;
    }
    return result;
}

enum tool_exit drain_run(struct drain *d, uint64_t to_lsn)
{
    struct recovery_result found;
    enum tool_exit result;
    int r;

    if (d->survey->state == JOURNAL_CLEAN)
        return remove_marks(d);
    result = recover(d, to_lsn, &found);
    if (result != TOOL_OK)
        return result;
    r = settle(d, &found);
    for (size_t i = 0; i < d->image_count && r == 0; i++)
        r = mark_image(d, &d->images[i]);
    if (r == 0)
        r = activate(d);
    if (r < 0)
        return TOOL_FAILED;
    if (to_lsn < d->survey->result.cut.lsn || d->survey->state == JOURNAL_DAMAGED) {
        r = core_cut(d->core);
        if (r < 0) {
            report_error(
                "%s: its sequence numbers are used up: replay it without --to, then make a new "
                "journal",
                d->survey->jf.storage->name);
            return TOOL_FAILED;
        }
    }
    d->records = found.records;
    d->payload_bytes = d->bytes_total = found.payload_bytes;
    progress_begin("replaying");
    r = checkpoint(d);
    /* What was overwritten since did not have to be copied. */
    if (r == 0)
        progress_update(NULL, d->bytes_total, d->bytes_total);
    progress_end();
    return r < 0 ? TOOL_FAILED : remove_marks(d);
}
