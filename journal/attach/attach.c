/* attach: opening a journal.  See attach.h; creating is in create.c, images in identity.c and
 * match.c, recovery in scan.c.
 */
#include <errno.h>
#include <string.h>

#include "attach.h"
#include "report.h"
#include "superblocks.h"

static int report_no_superblock(const struct storage *s, const struct superblocks *found)
{
    const char *path = s->name;

    switch (found->verdict) {
    case FORMAT_NO_MAGIC:
        report_error("%s is not a journal: check the path; %s", path,
                     s->is_block ? "if this device is to become one: nbdjournal create DEVICE"
                                 : "a new journal has to be created under another name "
                                   "(nbdjournal create NEW --size SIZE)");
        return -EINVAL;
    case FORMAT_OTHER_ORDER:
        report_error("journal %s was written in the other byte order: use it on a machine like "
                     "the one it comes from",
                     path);
        return -EINVAL;
    case FORMAT_NEW_VERSION:
        report_error("journal %s was written by a newer version, or uses a feature that this "
                     "version does not know: use the newer one",
                     path);
        return -EINVAL;
    default:
        break;
    }
    if (found->differ)
        report_error("journal %s is damaged: its two superblocks belong to different journals; "
                     "restore it from a copy",
                     path);
    else
        report_error("journal %s is damaged: none of its two superblocks is valid (first: %s, "
                     "second: %s); restore it from a copy, or give up what waits in it: create "
                     "a new one (nbdjournal create NEW --size SIZE), then nbdjournal adopt NEW "
                     "IMAGE --yes",
                     path, format_verdict_words(found->copies[0]),
                     format_verdict_words(found->copies[1]));
    return -EUCLEAN;
}

static int check_superblock(const struct storage *s, const struct superblock *sb,
                            enum attach_mode mode)
{
    uint64_t end = sb->ring_start + sb->ring_bytes;

    if (s->size < end) {
        report_error(
            "journal %s is truncated: it has %llu bytes, its superblock says %llu; "
            "restore it from a copy, or give up what waits in it: create a new one "
            "(nbdjournal create NEW --size SIZE), then nbdjournal adopt NEW IMAGE --yes",
            s->name, (unsigned long long)s->size, (unsigned long long)end);
        return -EUCLEAN;
    }
    if ((sb->feature_ro & ~FORMAT_RO_KNOWN) != 0 && mode != ATTACH_INSPECT) {
        report_error("journal %s uses a feature (bits 0x%x) that this version can't write: use "
                     "a newer one",
                     s->name, sb->feature_ro & ~FORMAT_RO_KNOWN);
        return -EINVAL;
    }
    return 0;
}

int journal_open(struct journal_file *jf, const char *path, enum attach_mode mode)
{
    bool read_only = mode == ATTACH_INSPECT;
    struct storage *storage;
    int e = storage_open_file(&storage, path, "journal", read_only, mode == ATTACH_SERVE,
                              !read_only);

    return e < 0 ? e : journal_open_storage(jf, storage, mode);
}

int journal_open_storage(struct journal_file *jf, struct storage *storage,
                         enum attach_mode mode)
{
    struct superblocks found;
    int e;

    memset(jf, 0, sizeof(*jf));
    jf->storage = storage;
    e = superblocks_read(storage, &found);
    if (e < 0) {
        report_error("can't read the superblocks of journal %s: %s", storage->name,
                     report_reason(-e));
        goto err;
    }
    if (found.verdict != FORMAT_OK) {
        e = report_no_superblock(storage, &found);
        goto err;
    }
    jf->sb = found.sb;
    jf->slots_valid = found.valid;
    /* The other copy may have been newer and said that the ring is in use again: then it is
     * searched, and if it was empty all the same, nothing but a moment is lost. */
    if (found.valid == 1)
        jf->sb.state &= ~SUPER_STATE_CLEAN;
    e = check_superblock(storage, &jf->sb, mode);
    if (e < 0)
        goto err;
    jf->in_use = mode == ATTACH_INSPECT && storage_in_use(storage);
    return 0;

err:
    journal_close(jf);
    return e;
}

void journal_close(struct journal_file *jf)
{
    storage_close(jf->storage);
    format_super_free(&jf->sb);
    memset(jf, 0, sizeof(*jf));
}
