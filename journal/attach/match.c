/* match: does this image belong to this journal?
 *
 * A wrong answer "yes" writes one disk's data over another, or serves an image without what
 * waits for it; a wrong answer "no" only asks a person.  So whatever can't be explained by a
 * crash of ours is refused while data waits, and the words name both sides and the ways out.
 *
 *   image bears a mark
 *     of another journal                    refused: what waits is there
 *     of this one, and the path in it leads to another file that is this journal too
 *                                           refused: one of them is a copy
 *     of an epoch that does not fit         refused: one of the two files was restored
 *     uuid not in the table                 a crash before its first superblock, if the mark is
 *                                           only opening or the table is empty: new; else refused
 *     uuid in the table, another file       refused: a copy, made while data was waiting,
 *                                           whether or not the original was drained since
 *     size differs                          refused; clean: accepted
 *   no mark
 *     the table knows the file              refused if data waits and it was marked: another
 *                                           file in its place; or if the size differs
 *     the table is empty                    new
 *     the journal serves a folder           refused if data waits for an image of this name;
 *                                           else new
 *     anything else                         refused if data waits; clean: accepted
 *
 * What this can't see: bytes that somebody wrote into the image in place while data was
 * waiting, and a pair of copies that fit together.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "attach.h"
#include "report.h"

/* What the functions here hand around. */
struct comparison {
    const struct journal_file *jf;
    bool clean;
    const struct storage *image;
    const struct image_mark *mark;
    const struct image_entry *now;
};

/* ---- words ---- */

#define WORDS_BYTES 512

/* "inode 12 on file system 0x34, 4096 bytes, /path/of/it" */
static const char *entry_words(const struct image_entry *e, char out[WORDS_BYTES])
{
    char what[128], name[FORMAT_NAME_BYTES + 1];

    if (e->kind == IMAGE_FILE)
        snprintf(what, sizeof(what), "inode %" PRIu64 " on file system 0x%" PRIx64, e->inode,
                 e->fsid);
    else if (e->kind == IMAGE_BLOCK && e->fsid != 0)
        snprintf(what, sizeof(what), "block device %u:%u with identity 0x%" PRIx64,
                 major(e->inode), minor(e->inode), e->fsid);
    else if (e->kind == IMAGE_BLOCK)
        snprintf(what, sizeof(what), "block device %u:%u", major(e->inode), minor(e->inode));
    else
        snprintf(what, sizeof(what), "remote");
    snprintf(name, sizeof(name), "%s", e->name);
    for (char *p = name; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    }
    snprintf(out, WORDS_BYTES, "%s, %" PRIu64 " bytes, %s", what, e->size, name);
    return out;
}

#define WAYS_BYTES 2048

/* What nearly every refusal ends with. */
static const char *ways_out(const struct comparison *c, char out[WAYS_BYTES])
{
    const char *journal = c->jf->storage->name, *image = c->image->name;

    snprintf(out, WAYS_BYTES,
             "If this image is the right one after all: nbdjournal adopt %s %s --yes.  To drop "
             "what waits in the journal: nbdjournal forget %s %s --yes",
             journal, image, journal, image);
    return out;
}

static enum image_match refuse_foreign(const struct comparison *c)
{
    char theirs[37], ours[37];

    format_uuid_text(c->mark->journal_uuid, theirs);
    format_uuid_text(c->jf->sb.uuid, ours);
    report_error("image %s belongs to another journal: its mark names %s (%s), but %s is %s; "
                 "data may wait for it there: use that journal, or if it is lost: nbdjournal "
                 "adopt %s %s --yes",
                 c->image->name, c->mark->journal_path, theirs, c->jf->storage->name, ours,
                 c->jf->storage->name, c->image->name);
    return MATCH_REFUSED;
}

static enum image_match refuse_copy_of_journal(const struct comparison *c)
{
    report_error("image %s names %s as its journal, and %s is a copy of that one: use the "
                 "original, or if it is out of date, move it away",
                 c->image->name, c->mark->journal_path, c->jf->storage->name);
    return MATCH_REFUSED;
}

static enum image_match refuse_epoch(const struct comparison *c, uint32_t known_epoch)
{
    bool journal_is_older = c->mark->epoch > known_epoch;
    const char *why = journal_is_older && c->jf->slots_valid == 1
                          ? "one of its superblocks is damaged."
                          : "was it restored from a copy?";
    char ways[WAYS_BYTES];

    report_error("%s %s is older than %s %s (the image's mark is of epoch %" PRIu32
                 ", the journal is at %" PRIu32 "): %s  %s",
                 journal_is_older ? "journal" : "image",
                 journal_is_older ? c->jf->storage->name : c->image->name,
                 journal_is_older ? "image" : "journal",
                 journal_is_older ? c->image->name : c->jf->storage->name, c->mark->epoch,
                 known_epoch, why, ways_out(c, ways));
    return MATCH_REFUSED;
}

static enum image_match refuse_unknown(const struct comparison *c)
{
    char uuid[37], ways[WAYS_BYTES];

    format_uuid_text(c->mark->image_uuid, uuid);
    report_error("image %s says that data waits for it in journal %s, which does not know it "
                 "(image %s): was the journal restored from a copy?  %s",
                 c->image->name, c->jf->storage->name, uuid, ways_out(c, ways));
    return MATCH_REFUSED;
}

static enum image_match refuse_other_file(const struct comparison *c,
                                          const struct image_entry *known)
{
    char there[WORDS_BYTES], here[WORDS_BYTES], ways[WAYS_BYTES];

    report_error("image %s is a copy, made while data was waiting in journal %s: the journal "
                 "knows the original (%s), this is another file (%s).  %s",
                 c->image->name, c->jf->storage->name, entry_words(known, there),
                 entry_words(c->now, here), ways_out(c, ways));
    return MATCH_REFUSED;
}

static enum image_match refuse_size(const struct comparison *c, const struct image_entry *known)
{
    char ways[WAYS_BYTES];

    report_error("image %s has %s: %" PRIu64 " bytes, but data waits for it in journal %s, "
                 "which knows it with %" PRIu64 " bytes; give it back its size (truncate -s "
                 "%" PRIu64 " %s), replay the journal, then resize it.  %s",
                 c->image->name, c->now->size < known->size ? "shrunk" : "grown", c->now->size,
                 c->jf->storage->name, known->size, known->size, c->image->name,
                 ways_out(c, ways));
    return MATCH_REFUSED;
}

static enum image_match refuse_unmarked(const struct comparison *c)
{
    char ways[WAYS_BYTES];

    report_error("data waits in journal %s for the file that was image %s, but this file lacks "
                 "the mark which that one bears: it was replaced, restored or copied.  %s",
                 c->jf->storage->name, c->image->name, ways_out(c, ways));
    return MATCH_REFUSED;
}

static enum image_match refuse_not_known(const struct comparison *c,
                                         const struct image_entry *other)
{
    char there[WORDS_BYTES], here[WORDS_BYTES], ways[WAYS_BYTES];

    report_error("data waits in journal %s for another image (%s%s) than %s (%s).  %s",
                 c->jf->storage->name, entry_words(other, there),
                 c->jf->sb.image_count > 1 ? ", and more" : "", c->image->name,
                 entry_words(c->now, here), ways_out(c, ways));
    return MATCH_REFUSED;
}

/* ---- comparing ---- */

/* by_mark: the mark told already which image this is, so that the file system's number, which
 * for some changes with a reboot, does not matter. */
static bool same_object(const struct image_entry *known, const struct image_entry *now,
                        bool by_mark)
{
    if (known->kind != now->kind)
        return false;
    switch (now->kind) {
    case IMAGE_FILE:
        return known->inode == now->inode && (by_mark || known->fsid == now->fsid);
    case IMAGE_BLOCK:
        if (known->fsid != 0 || now->fsid != 0)
            return known->fsid == now->fsid;
        return known->inode == now->inode;
    case IMAGE_REMOTE:
        return strcmp(known->name, now->name) == 0;
    }
    return false;
}

static const struct image_entry *find_uuid(const struct superblock *sb, const uint8_t *uuid)
{
    for (uint32_t i = 0; i < sb->image_count; i++) {
        if (memcmp(sb->images[i].uuid, uuid, FORMAT_UUID_BYTES) == 0)
            return &sb->images[i];
    }
    return NULL;
}

static const struct image_entry *find_object(const struct superblock *sb,
                                             const struct image_entry *now)
{
    for (uint32_t i = 0; i < sb->image_count; i++) {
        if (same_object(&sb->images[i], now, false))
            return &sb->images[i];
    }
    return NULL;
}

/* Is there a superblock of the journal `uuid` in this file? */
static bool holds_journal(int fd, const uint8_t uuid[FORMAT_UUID_BYTES])
{
    uint8_t *bytes = malloc(FORMAT_SUPER_BYTES);
    bool found = false;

    for (int i = 0; bytes != NULL && i < 2 && !found; i++) {
        struct superblock sb;
        size_t need;

        if (pread(fd, bytes, FORMAT_SUPER_BYTES, i * FORMAT_SUPER_BYTES) ==
                (ssize_t)FORMAT_SUPER_BYTES &&
            format_super_decode(bytes, FORMAT_SUPER_BYTES, &need, &sb) == FORMAT_OK) {
            found = memcmp(sb.uuid, uuid, FORMAT_UUID_BYTES) == 0;
            format_super_free(&sb);
        }
    }
    free(bytes);
    return found;
}

/* The mark names a path, and what is there is the same journal, but not the file that we
 * opened. A journal that was moved leaves nothing there; a link leads to our file. */
static bool journal_is_copy(const struct comparison *c)
{
    const char *path = c->mark->journal_path;
    struct stat there, ours;
    bool is_copy;
    int fd;

    if (path[0] != '/' || c->jf->storage->fd == -1 || fstat(c->jf->storage->fd, &ours) == -1 ||
        stat(path, &there) == -1 || !(S_ISREG(there.st_mode) || S_ISBLK(there.st_mode)))
        return false;
    if (S_ISBLK(there.st_mode) ? S_ISBLK(ours.st_mode) && there.st_rdev == ours.st_rdev
                               : there.st_dev == ours.st_dev && there.st_ino == ours.st_ino)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd == -1)
        return false;
    is_copy = holds_journal(fd, c->jf->sb.uuid);
    close(fd);
    return is_copy;
}

/* attach.h, "Order".  known: what the journal says about the image's mark. */
static bool epoch_fits(const struct comparison *c, uint32_t known)
{
    uint32_t mark = c->mark->epoch, super = c->jf->sb.epoch;

    if (mark == 0 || mark == known)
        return true;
    return c->mark->is_opening && mark > known && mark - 1 <= super;
}

/* May data wait for this image?  Without a folder there is one, and the ring is asked. */
static bool waits(const struct comparison *c, const struct image_entry *entry)
{
    return !c->clean && (!c->jf->serves_folder || (entry->flags & IMAGE_FLAG_PENDING) != 0);
}

/* The file's own name: the folder may have been moved. */
static const struct image_entry *find_name(const struct superblock *sb,
                                           const struct image_entry *now)
{
    const char *slash = strrchr(now->name, '/');
    const char *name = slash != NULL ? slash + 1 : now->name;

    for (uint32_t i = 0; i < sb->image_count; i++) {
        slash = strrchr(sb->images[i].name, '/');
        if (strcmp(slash != NULL ? slash + 1 : sb->images[i].name, name) == 0)
            return &sb->images[i];
    }
    return NULL;
}

static enum image_match compare_marked(const struct comparison *c,
                                       const struct image_entry **known)
{
    const struct superblock *sb = &c->jf->sb;
    const struct image_entry *entry;
    uint32_t known_epoch;

    if (memcmp(c->mark->journal_uuid, sb->uuid, FORMAT_UUID_BYTES) != 0)
        return refuse_foreign(c);
    if (journal_is_copy(c))
        return refuse_copy_of_journal(c);
    entry = find_uuid(sb, c->mark->image_uuid);
    known_epoch = entry != NULL && entry->mark_epoch != 0 ? entry->mark_epoch : sb->epoch;
    if (!epoch_fits(c, known_epoch))
        return refuse_epoch(c, known_epoch);
    if (entry == NULL)
        return sb->image_count == 0 || c->mark->is_opening ? MATCH_NEW : refuse_unknown(c);
    if (!same_object(entry, c->now, true))
        return refuse_other_file(c, entry);
    if (entry->size != c->now->size && waits(c, entry))
        return refuse_size(c, entry);
    *known = entry;
    return entry->size == c->now->size ? MATCH_KNOWN : MATCH_CLEAN;
}

static enum image_match compare_unmarked(const struct comparison *c,
                                         const struct image_entry **known)
{
    const struct superblock *sb = &c->jf->sb;
    const struct image_entry *entry = find_object(sb, c->now);

    if (entry != NULL) {
        if (waits(c, entry) && (entry->flags & IMAGE_FLAG_MARKED) != 0)
            return refuse_unmarked(c);
        if (waits(c, entry) && entry->size != c->now->size)
            return refuse_size(c, entry);
        *known = entry;
        return entry->size == c->now->size ? MATCH_KNOWN : MATCH_CLEAN;
    }
    if (sb->image_count == 0)
        return MATCH_NEW;
    if (c->jf->serves_folder) {
        entry = find_name(sb, c->now);
        return entry != NULL && waits(c, entry) ? refuse_not_known(c, entry) : MATCH_NEW;
    }
    if (!c->clean)
        return refuse_not_known(c, &sb->images[0]);
    if (sb->image_count > 1)
        return MATCH_NEW;
    *known = &sb->images[0];
    return MATCH_CLEAN;
}

enum image_match image_compare(const struct journal_file *jf, bool clean, struct storage *image,
                               const struct image_mark *mark, const struct image_entry *now,
                               const struct image_entry **known)
{
    const struct comparison c = {jf, clean, image, mark, now};

    *known = NULL;
    return mark->present ? compare_marked(&c, known) : compare_unmarked(&c, known);
}
