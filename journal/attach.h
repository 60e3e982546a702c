/* attach: opening a journal and its images, and refusing what does not belong together.
 *
 * What happens before the first client (nbdkit's get_ready) and at the start of each tool:
 * open, lock,
 * read the superblocks, compare identities (DESIGN 5.13).  Nothing is modified here, except by
 * journal_create_file and the attach_mark_* functions; a refusal leaves every byte as it was
 * (P6).
 *
 * Identity.  A journal has a random UUID.  For each image its table says: a UUID of our own,
 * size, and
 * what the system says it is (file: statfs f_fsid and inode; block device: device number).
 * An image
 * carries a *mark* while a journal may hold data for it: the extended attribute
 * user.nbdkit.journal = text
 * "JOURNAL-UUID IMAGE-UUID /absolute/path/of/journal" (where the file system has such; block
 * devices have none).
 */
#ifndef JOURNAL_ATTACH_H
#define JOURNAL_ATTACH_H

#include "core.h"
#include "format.h"
#include "storage.h"

/* ---- creating ---- */

/* Size for a new journal of an image of image_bytes: see the .c file for the reasons. */
uint64_t journal_default_size(uint64_t image_bytes);

/* Creates a journal file, never over an existing file (O_EXCL|O_NOFOLLOW, 0600), allocated,
 * its first part written
 * (the engine prewrites the rest in the background), superblocks written and durable, then
 * the directory fsynced; no half-made journal is ever visible
 * under `path` (made under a temporary name, then renamed/linked).  For a block device: only
 * if its first bytes are no valid journal, or force; journal_bytes 0 = whole device.
 * -EEXIST, -ENOSPC, -EINVAL (size below FORMAT_JOURNAL_MIN, not explained by the caller) ...;
 * reported. */
int journal_create_file(const char *path, uint64_t journal_bytes, bool force);

/* ---- opening ---- */

enum attach_mode {
    ATTACH_SERVE, /* read-write if permitted, exclusive */
    /* read-only, no lock needed: info, check, dump (a running server is no obstacle; its ring
     * moves, so a report says so) */
    ATTACH_INSPECT,
    ATTACH_REPAIR, /* read-write, exclusive, or fail: replay, resize, adopt, forget */
};

struct journal_file {
    struct storage *storage;
    struct superblock sb; /* the copy that counts */
    int slots_valid;      /* 1 or 2: 1 means that the other one is torn or was never written */
    bool in_use;          /* INSPECT: another process holds its lock */
};

/* Opens a journal and reads its superblocks.  Refuses with a clear report: no journal, other
 * byte order, newer version or unknown
 * incompatible feature, both copies damaged, file shorter than its superblock says, unknown
 * feature_ro unless INSPECT, ... (-EINVAL, -EBUSY, -errno). */
int journal_open(struct journal_file *jf, const char *path, enum attach_mode mode);
void journal_close(struct journal_file *jf);

/* The identity of an opened image, as the system tells it now (uuid from its mark if it has
 * one, else zero; id, flags 0). */
int image_identify(struct storage *image, struct image_entry *out);

/* What an image says about its journal. */
struct image_mark {
    bool present;
    uint8_t journal_uuid[FORMAT_UUID_BYTES];
    uint8_t image_uuid[FORMAT_UUID_BYTES];
    char journal_path[4096];
};
/* -EUCLEAN if unreadable text; absent where unsupported: 0 */
int image_mark_read(struct storage *image, struct image_mark *mark);
/* Writes the mark and makes it durable (fsync).  0 also where the file system has no such
 * attributes (*supported false). */
int image_mark_write(struct storage *image, const struct image_mark *mark, bool *supported);
int image_mark_remove(struct storage *image);

enum image_match {
    /* the table does not know it and it bears no mark: may be added (only if the journal has
     * no other image, until dir= exists) */
    MATCH_NEW,
    MATCH_KNOWN, /* the table knows it and everything agrees */
    /* something differs (size, inode...) but the journal holds nothing for it: entry may be
     * replaced */
    MATCH_CLEAN,
    MATCH_REFUSED, /* reported: foreign mark, dirty and different, ... with the way out */
};
/* Compares.  `clean`: the journal holds no records (state CLEAN).  On KNOWN and CLEAN, *known
 * is the entry of the table (inside jf->sb). */
enum image_match image_compare(const struct journal_file *jf, bool clean, struct storage *image,
                               const struct image_mark *mark, const struct image_entry *now,
                               const struct image_entry **known);

/* ---- recovery with real files, reading the ring past the page cache in large pieces ---- */

/* Runs a whole recovery of core from jf's ring; `progress` (may be NULL) is called about ten
 * times a second with bytes done and total. */
int journal_recover(const struct journal_file *jf, struct core *core, uint64_t to_lsn,
                    recovery_visit *visit, void *opaque,
                    void (*progress)(void *opaque, uint64_t done, uint64_t total),
                    struct recovery_result *result);

/* Reports a RECOVERY_DAMAGED result in words: place (byte of the file), lsn, witness, way
 * out. */
void journal_report_damage(const struct journal_file *jf, const struct recovery_result *result);

#endif
