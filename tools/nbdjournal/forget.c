/* nbdjournal forget
 *
 * Drops what waits for an image that is gone, or the claim of a journal that is gone.
 *
 *   - The journal is there and knows the image: a superblock without it; if nothing waits for
 *     any other image, the ring is empty with it.  Then, if the image is there after all, its
 *     mark is removed.  A crash between the two leaves an image that is marked for a journal
 *     that does not know it: refused, and forget removes the mark.
 *   - The journal is there and does not know the image, which bears its mark: the mark goes.
 *   - The image is a copy, made with its mark, and the one that it was copied from is in its
 *     place: what waits is for that one.  The mark of the copy goes.
 *   - The journal is gone: the image's mark, if it names this journal, goes.
 *
 * It works on a damaged journal too: it is the last way out.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "describe.h"
#include "nbdjournal.h"
#include "report.h"
#include "super.h"
#include "survey.h"

struct forget_arguments {
    const char *journal, *image;
    bool yes;
};

/* The image, if it is there. */
struct forgotten {
    struct storage *storage;
    struct image_mark mark;
    bool mark_unreadable;
    struct image_entry now;
};

enum { OPTION_YES = 256 };

static const struct argp_option options[] = {
    {.name = "yes", .key = OPTION_YES, .doc = "Yes, data may be lost (it says how much first)"},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct forget_arguments *a = state->input;

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
            argp_error(state, "a JOURNAL and the IMAGE that it shall forget are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool is_missing(const char *path)
{
    return access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* Opens what stands at `path`, which exists. */
static enum tool_exit open_image(struct forgotten *f, const char *path)
{
    int r;

    if (storage_open_file(&f->storage, path, "image", false, false, true) < 0)
        return TOOL_FAILED;
    r = image_mark_read(f->storage, &f->mark);
    f->mark_unreadable = r == -EUCLEAN;
    if (f->mark_unreadable)
        f->mark = (struct image_mark){0};
    else if (r < 0)
        return TOOL_FAILED;
    return image_identify(f->storage, &f->now) < 0 ? TOOL_FAILED : TOOL_OK;
}

static bool has_mark_of(const struct forgotten *f,
                        const uint8_t journal_uuid[FORMAT_UUID_BYTES])
{
    return f->mark.present &&
           memcmp(f->mark.journal_uuid, journal_uuid, FORMAT_UUID_BYTES) == 0;
}

/* ---- the journal is there ---- */

static bool is_this_image(const struct image_entry *now, const struct image_entry *entry)
{
    return now->kind == entry->kind && now->fsid == entry->fsid && now->inode == entry->inode;
}

/* The entry that the words mean: UUID, path, or the file that is there.  image_count: none. */
static uint32_t find_entry(const struct superblock *sb, const struct forgotten *f,
                           const char *words)
{
    char *path = realpath(words, NULL);
    char uuid[37];
    uint32_t i;

    for (i = 0; i < sb->image_count; i++) {
        const struct image_entry *entry = &sb->images[i];

        format_uuid_text(entry->uuid, uuid);
        if (strcasecmp(words, uuid) == 0 || strcmp(words, entry->name) == 0 ||
            (path != NULL && strcmp(path, entry->name) == 0))
            break;
        if (f->storage == NULL)
            continue;
        if (has_mark_of(f, sb->uuid)
                ? memcmp(f->mark.image_uuid, entry->uuid, FORMAT_UUID_BYTES) == 0
                : is_this_image(&f->now, entry))
            break;
    }
    free(path);
    return i;
}

/* 1: the image bears the mark by being a copy of the journal's image, which is in its place (the
 * number of its file system may have changed with a reboot). */
static int is_copy(const struct forgotten *f, const struct image_entry *entry)
{
    struct image_entry original = {0};
    struct storage *storage = NULL;
    int r;

    if (f->storage == NULL || is_missing(entry->name))
        return 0;
    r = storage_open_file(&storage, entry->name, "image", true, false, false);
    if (r == 0)
        r = image_identify(storage, &original);
    storage_close(storage);
    if (r < 0)
        return r;
    return original.kind == entry->kind && original.inode == entry->inode &&
           !is_this_image(&original, &f->now);
}

/* A superblock without this entry. */
static int drop_entry(struct survey *s, uint32_t index)
{
    struct journal_file *jf = &s->jf;
    struct superblock sb = jf->sb;
    struct image_entry *table = calloc(sb.image_count, sizeof(*table));
    bool others_wait = false;
    int r = -EOVERFLOW;

    if (table == NULL) {
        report_error("%s: %s", jf->storage->name, report_reason(ENOMEM));
        return -ENOMEM;
    }
    sb.images = table;
    sb.image_count = 0;
    for (uint32_t i = 0; i < jf->sb.image_count; i++) {
        if (i == index)
            continue;
        table[sb.image_count++] = jf->sb.images[i];
        others_wait = others_wait || s->images[i].records != 0;
    }
    /* Of a damaged journal not all is known that waits. */
    if (s->state == JOURNAL_DAMAGED && sb.image_count > 0)
        others_wait = true;
    for (uint32_t i = 0; i < sb.image_count && !others_wait; i++)
        table[i].flags &= ~IMAGE_FLAG_PENDING;
    if (others_wait || s->state == JOURNAL_CLEAN || super_empty_ring(jf, &sb))
        r = super_write(jf, &sb);
    if (r == 0 && !others_wait)
        staging_remove(jf->storage);
    free(table);
    return r;
}

static void say_loss(const struct survey *s, uint32_t index)
{
    const struct survey_image *waits = &s->images[index];
    char text[SURVEY_TEXT_BYTES], uuid[37];

    format_uuid_text(waits->entry->uuid, uuid);
    printf("%s (uuid %s): ", waits->entry->name, uuid);
    if (s->state == JOURNAL_DAMAGED)
        printf(
            "%s wait for it before the damage, and perhaps more behind it; all of it is lost\n",
            survey_waiting_text(waits->records, waits->payload_bytes, text));
    else if (waits->records == 0)
        printf("nothing waits for it\n");
    else
        printf("%s wait for it and are lost\n",
               survey_waiting_text(waits->records, waits->payload_bytes, text));
}

static enum tool_exit forget_entry(struct survey *s, struct forgotten *f, uint32_t index,
                                   bool yes)
{
    enum tool_exit result;

    say_loss(s, index);
    result = nbdjournal_confirm(yes);
    if (result != TOOL_OK)
        return result;
    if (drop_entry(s, index) < 0)
        return TOOL_FAILED;
    if (f->storage != NULL && has_mark_of(f, s->jf.sb.uuid) &&
        image_mark_remove(f->storage) < 0)
        return TOOL_FAILED;
    printf("forgotten\n");
    return TOOL_OK;
}

static enum tool_exit remove_mark(struct forgotten *f, bool yes)
{
    enum tool_exit result = nbdjournal_confirm(yes);

    if (result != TOOL_OK)
        return result;
    if (image_mark_remove(f->storage) < 0)
        return TOOL_FAILED;
    printf("forgotten: %s bears no mark any more\n", f->storage->name);
    return TOOL_OK;
}

static enum tool_exit forget_in_journal(struct survey *s, struct forgotten *f,
                                        const struct forget_arguments *a)
{
    uint32_t index = find_entry(&s->jf.sb, f, a->image);

    if (index < s->jf.sb.image_count) {
        const struct image_entry *entry = &s->jf.sb.images[index];
        int copy = is_copy(f, entry);

        if (copy < 0)
            return TOOL_FAILED;
        if (copy == 0)
            return forget_entry(s, f, index, a->yes);
        printf("%s is a copy of %s, for which the journal is: only the mark of the copy is "
               "removed\n",
               a->image, entry->name);
        return remove_mark(f, a->yes);
    }
    if (f->storage != NULL && has_mark_of(f, s->jf.sb.uuid)) {
        printf("%s is marked for this journal, which does not know it (any more)\n", a->image);
        return remove_mark(f, a->yes);
    }
    report_error("%s: it knows no image '%s': see nbdjournal info %s", a->journal, a->image,
                 a->journal);
    return TOOL_FAILED;
}

/* ---- the journal is gone ---- */

static enum tool_exit forget_without_journal(struct forgotten *f,
                                             const struct forget_arguments *a)
{
    char uuid[37];

    if (f->storage == NULL) {
        report_error("%s: there is no such journal, and no such image %s: nothing is left to "
                     "forget",
                     a->journal, a->image);
        return TOOL_FAILED;
    }
    if (f->mark_unreadable) {
        printf("%s bears a mark that can't be read\n", a->image);
        return remove_mark(f, a->yes);
    }
    if (!f->mark.present) {
        printf("%s bears no mark: no journal claims it\n", a->image);
        return TOOL_OK;
    }
    if (!is_missing(f->mark.journal_path)) {
        report_error(
            "%s: its journal is %s, and there is something at this path: name that one",
            a->image, f->mark.journal_path);
        return TOOL_FAILED;
    }
    format_uuid_text(f->mark.journal_uuid, uuid);
    printf(
        "%s is marked for the journal %s (uuid %s), which is gone: what waited in it is lost "
        "(if it has only moved, name its new place)\n",
        a->image, f->mark.journal_path, uuid);
    return remove_mark(f, a->yes);
}

static enum tool_exit forget(struct survey *s, struct forgotten *f,
                             const struct forget_arguments *a)
{
    bool journal_gone = is_missing(a->journal);
    enum tool_exit result = TOOL_OK;

    if (!journal_gone) {
        result = survey_open(s, a->journal, ATTACH_REPAIR);
        if (result == TOOL_OK)
            result = survey_scan(s);
    }
    if (result == TOOL_OK && !is_missing(a->image))
        result = open_image(f, a->image);
    if (result != TOOL_OK)
        return result;
    return journal_gone ? forget_without_journal(f, a) : forget_in_journal(s, f, a);
}

enum tool_exit forget_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOURNAL IMAGE",
        .doc = "Drops what waits for an image that is gone.  IMAGE is its path or its UUID, as "
               "info shows them.  If the journal is gone too, the mark that the image bears is "
               "removed.  Without --yes it only says what is lost."};
    struct forget_arguments a = {0};
    struct survey s = {0};
    struct forgotten f = {0};
    enum tool_exit result;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    result = forget(&s, &f, &a);
    storage_close(f.storage);
    survey_close(&s);
    return result;
}
