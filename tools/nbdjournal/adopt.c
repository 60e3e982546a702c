/* nbdjournal adopt
 *
 * The image is this one after all.  A server refuses a pair of which one half was moved, copied,
 * restored, shrunk or grown since the other saw it last (DESIGN 5.13), for it can't know whether
 * what waits in the journal still fits.  A person can.
 *
 * Two cases:
 *   - the journal knows the image, or something that it may be: the entry in its table gets the
 *     identity of this file, and if records wait, the file gets the mark;
 *   - the journal knows nothing and holds nothing, and the image bears the mark of another
 *     journal, which is gone: that mark is removed.
 *
 * Order: the mark, then the superblock.  A crash between leaves a pair that is refused as before,
 * and adopt is the way out as before.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "nbdjournal.h"
#include "report.h"
#include "size.h"
#include "super.h"
#include "survey.h"

/* Records beyond the end of a smaller image that are named one by one. */
#define NAMED_MAX 10

struct adopt_arguments {
    const char *journal, *image;
    bool yes;
};

struct adopt {
    struct survey survey;
    struct storage *image;
    struct image_mark mark;
    bool mark_unreadable;
    struct image_entry now;
    uint32_t index; /* of the entry in the table; image_count: none */
};

enum { OPTION_YES = 256 };

static const struct argp_option options[] = {
    {.name = "yes",
     .key = OPTION_YES,
     .doc = "Yes, it is this image (it says what that means "
            "first)"},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct adopt_arguments *a = state->input;

    switch (key) {
    case OPTION_YES:
        a->yes = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num >= 2)
            argp_error(state, "one image at a time");
        *(state->arg_num == 0 ? &a->journal : &a->image) = argument;
        return 0;
    case ARGP_KEY_END:
        if (a->image == NULL)
            argp_error(state, "a JOURNAL and the IMAGE that it shall take are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- which image of the journal it may be ---- */

static bool same_file(const struct image_entry *a, const struct image_entry *b)
{
    return a->kind == b->kind && a->fsid == b->fsid && a->inode == b->inode;
}

static bool mark_is_ours(const struct adopt *d)
{
    return d->mark.present &&
           memcmp(d->mark.journal_uuid, d->survey.jf.sb.uuid, FORMAT_UUID_BYTES) == 0;
}

/* By what its mark says, by what it is, by its path; else the only one that there is. */
static void find_entry(struct adopt *d)
{
    const struct superblock *sb = &d->survey.jf.sb;

    for (d->index = 0; d->index < sb->image_count; d->index++) {
        if (mark_is_ours(d) &&
            memcmp(d->mark.image_uuid, sb->images[d->index].uuid, FORMAT_UUID_BYTES) == 0)
            return;
    }
    for (d->index = 0; d->index < sb->image_count; d->index++) {
        if (same_file(&d->now, &sb->images[d->index]))
            return;
    }
    for (d->index = 0; d->index < sb->image_count; d->index++) {
        if (strcmp(d->now.name, sb->images[d->index].name) == 0)
            return;
    }
    if (sb->image_count == 1)
        d->index = 0;
}

/* What a server would say, without its words. */
static enum image_match match(const struct adopt *d)
{
    const struct image_entry *known;
    enum image_match result;

    if (d->mark_unreadable)
        return MATCH_REFUSED;
    nbdjournal_be_quiet(true);
    result = image_compare(&d->survey.jf, d->survey.state == JOURNAL_CLEAN, d->image, &d->mark,
                           &d->now, &known);
    nbdjournal_be_quiet(false);
    return result;
}

/* ---- what differs ---- */

static void say_mark(const struct adopt *d, const struct image_entry *entry)
{
    const struct journal_file *jf = &d->survey.jf;
    char uuid[37];

    if (d->mark_unreadable) {
        printf("  its mark can't be read\n");
    } else if (!d->mark.present) {
        if (entry->flags & IMAGE_FLAG_MARKED)
            printf("  it bears no mark, and the one that the journal knows did\n");
    } else if (!mark_is_ours(d)) {
        format_uuid_text(d->mark.journal_uuid, uuid);
        printf("  it is marked for the journal %s, which was at %s\n", uuid,
               d->mark.journal_path);
    } else if (memcmp(d->mark.image_uuid, entry->uuid, FORMAT_UUID_BYTES) != 0) {
        printf("  it is marked as another image of this journal\n");
    } else {
        printf("  it is marked for this journal at %s, in epoch %" PRIu32
               "; the journal is in epoch %" PRIu32 "\n",
               d->mark.journal_path, d->mark.epoch, jf->sb.epoch);
    }
}

/* The file, and what the journal knows. */
static void say_differences(const struct adopt *d, const struct image_entry *entry)
{
    char size[SIZE_TEXT_BYTES], now[SIZE_TEXT_BYTES];

    printf("%s, and what the journal knows as %s:\n", d->image->name, entry->name);
    if (entry->size != d->now.size)
        printf("  its size is %s, and was %s\n", size_text_exact(d->now.size, now),
               size_text_exact(entry->size, size));
    if (!same_file(entry, &d->now))
        printf("  it is another file or device (inode %" PRIu64 ", and was %" PRIu64 ")\n",
               d->now.inode, entry->inode);
    say_mark(d, entry);
}

struct beyond {
    uint64_t end; /* of the image */
    uint32_t image_id;
    uint64_t records;
};

static int say_beyond(void *opaque, const struct record *record)
{
    struct beyond *b = opaque;

    if (record->image_id != b->image_id || record->offset + record->length <= b->end)
        return 0;
    if (b->records++ < NAMED_MAX)
        printf("    lsn %" PRIu64 ": %s of %" PRIu64 " bytes at %" PRIu64 "\n", record->lsn,
               describe_kind(record->kind), record->length, record->offset);
    return 0;
}

/* The image is smaller than it was: names the records that don't fit.  A second scan. */
static enum tool_exit say_dropped(struct adopt *d, const struct image_entry *entry)
{
    struct beyond beyond = {.end = d->now.size, .image_id = entry->id};
    enum tool_exit result;

    printf("  what lies beyond its end is dropped:\n");
    d->survey.visit = say_beyond;
    d->survey.visit_opaque = &beyond;
    result = survey_scan(&d->survey);
    if (result == TOOL_OK && beyond.records == 0)
        printf("    nothing\n");
    if (beyond.records > NAMED_MAX)
        printf("    and %" PRIu64 " more\n", beyond.records - NAMED_MAX);
    return result;
}

/* ---- doing it ---- */

static int write_mark(const struct adopt *d, struct image_entry *entry)
{
    const struct journal_file *jf = &d->survey.jf;
    struct image_mark mark = {.present = true, .epoch = jf->sb.epoch};
    bool supported = false;
    char *path = realpath(jf->storage->name, NULL);
    int r;

    memcpy(mark.journal_uuid, jf->sb.uuid, FORMAT_UUID_BYTES);
    memcpy(mark.image_uuid, entry->uuid, FORMAT_UUID_BYTES);
    snprintf(mark.journal_path, sizeof(mark.journal_path), "%s",
             path != NULL ? path : jf->storage->name);
    free(path);
    r = image_mark_write(d->image, &mark, &supported);
    entry->flags = IMAGE_FLAG_PENDING | (entry->flags & IMAGE_FLAG_BYPASS) |
                   (supported ? IMAGE_FLAG_MARKED : 0);
    entry->mark_epoch = mark.epoch;
    return r;
}

static enum tool_exit take_over(struct adopt *d)
{
    struct journal_file *jf = &d->survey.jf;
    struct superblock sb = jf->sb;
    const struct image_entry *entry = &jf->sb.images[d->index];
    struct image_entry *table = calloc(sb.image_count, sizeof(*table));
    struct image_entry *taken;
    int r = 0;

    if (table == NULL) {
        report_error("%s: %s", jf->storage->name, report_reason(ENOMEM));
        return TOOL_FAILED;
    }
    memcpy(table, sb.images, sb.image_count * sizeof(*table));
    sb.images = table;
    taken = &table[d->index];
    *taken = d->now;
    taken->id = entry->id;
    taken->flags = 0;
    memcpy(taken->uuid, entry->uuid, FORMAT_UUID_BYTES);
    /* A clean journal has no claim on its images. */
    if (d->survey.state != JOURNAL_CLEAN)
        r = write_mark(d, taken);
    else if (d->mark.present || d->mark_unreadable)
        r = image_mark_remove(d->image);
    if (r == 0)
        r = super_write(jf, &sb);
    free(table);
    if (r < 0)
        return TOOL_FAILED;
    printf("%s is the image now\n", d->image->name);
    return TOOL_OK;
}

/* The journal knows the image, or something that it may be. */
static enum tool_exit adopt_entry(struct adopt *d, bool yes)
{
    const struct image_entry *entry = &d->survey.jf.sb.images[d->index];
    const struct survey_image *waits = &d->survey.images[d->index];
    enum tool_exit result = TOOL_OK;
    char text[SURVEY_TEXT_BYTES];

    say_differences(d, entry);
    if (waits->records == 0) {
        printf("nothing waits for it in the journal\n");
    } else {
        printf("%s wait for it.  They fit if it is the same image at another place, or a copy "
               "made since the server was stopped or killed.  If it is older, what the server "
               "had brought home since then is missing in it, and stays lost; if it is another "
               "image, they destroy it.\n",
               survey_waiting_text(waits->records, waits->payload_bytes, text));
        if (d->now.size < entry->size)
            result = say_dropped(d, entry);
    }
    if (d->mark.present && !mark_is_ours(d))
        printf("what waits for it in the other journal, if there is such, is lost for it\n");
    if (result == TOOL_OK)
        result = nbdjournal_confirm(yes);
    return result == TOOL_OK ? take_over(d) : result;
}

/* The journal knows no image. */
static enum tool_exit adopt_new(struct adopt *d, bool yes)
{
    enum tool_exit result;
    char uuid[37];

    if (d->mark_unreadable) {
        printf("%s bears a mark that can't be read\n", d->image->name);
    } else {
        format_uuid_text(d->mark.journal_uuid, uuid);
        printf("%s is marked for the journal %s, which was at %s\n", d->image->name, uuid,
               d->mark.journal_path);
    }
    printf("what waits for it there, if there is such, is lost for it\n");
    result = nbdjournal_confirm(yes);
    if (result != TOOL_OK)
        return result;
    if (image_mark_remove(d->image) < 0)
        return TOOL_FAILED;
    printf("the mark is removed: %s is free to be used with %s\n", d->image->name,
           d->survey.jf.storage->name);
    return TOOL_OK;
}

static enum tool_exit open_both(struct adopt *d, const struct adopt_arguments *a)
{
    enum tool_exit result = survey_open(&d->survey, a->journal, ATTACH_REPAIR);
    int r;

    if (result == TOOL_OK)
        result = survey_scan(&d->survey);
    if (result == TOOL_OK && d->survey.state == JOURNAL_DAMAGED)
        result = TOOL_DAMAGED;
    if (result != TOOL_OK)
        return result;
    if (storage_open_file(&d->image, a->image, "image", false, false, true) < 0)
        return TOOL_FAILED;
    r = image_mark_read(d->image, &d->mark);
    d->mark_unreadable = r == -EUCLEAN;
    if (d->mark_unreadable)
        d->mark = (struct image_mark){0};
    else if (r < 0)
        return TOOL_FAILED;
    return image_identify(d->image, &d->now) < 0 ? TOOL_FAILED : TOOL_OK;
}

static enum tool_exit adopt(struct adopt *d, const struct adopt_arguments *a)
{
    enum tool_exit result = open_both(d, a);

    if (result != TOOL_OK)
        return result;
    switch (match(d)) {
    case MATCH_KNOWN:
        printf("%s is the image of this journal: nothing differs\n", a->image);
        return TOOL_OK;
    case MATCH_NEW:
    case MATCH_CLEAN:
        printf("nothing waits for %s: the server takes it as it is\n", a->image);
        return TOOL_OK;
    case MATCH_REFUSED:
        break;
    }
    find_entry(d);
    if (d->index < d->survey.jf.sb.image_count)
        return adopt_entry(d, a->yes);
    if (d->survey.jf.sb.image_count == 0)
        return adopt_new(d, a->yes);
    report_error("%s: it serves several images, and nothing says which one %s is: forget that "
                 "one first (nbdjournal forget)",
                 a->journal, a->image);
    return TOOL_FAILED;
}

enum tool_exit adopt_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOURNAL IMAGE",
        .doc = "Says that IMAGE is the image of this journal after all: it was moved, copied, "
               "restored, or its old journal is gone.  Without --yes it only says what differs "
               "and what may be lost."};
    struct adopt_arguments a = {0};
    struct adopt d = {0};
    enum tool_exit result;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    result = adopt(&d, &a);
    storage_close(d.image);
    survey_close(&d.survey);
    return result;
}
