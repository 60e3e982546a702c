/* attach: opening a journal and its images, and refusing what does not belong together.
 *
 * What happens before the first client (nbdkit's get_ready) and at the start of each tool:
 * open, lock, read the superblocks, compare identities (DESIGN 5.13).  Nothing is modified
 * here, except by journal_create_file and the image_mark_* functions; a refusal leaves every
 * byte as it was (P6).
 *
 * Identity.  A journal has a random UUID.  For each image its table says: a UUID of our own,
 * size, and what the system says it is (file: statfs f_fsid and inode; block device: device
 * number and, as fsid, a hash of the identity that the device itself has, 0 if none).  An image
 * carries a *mark* while a journal may hold data for it: the extended attribute
 * user.nbdkit.journal = text "JOURNAL-UUID IMAGE-UUID EPOCH /absolute/path/of/journal" (where
 * the file system has such; block devices have none).  EPOCH is followed by "+" until the open
 * that wrote it is complete.
 *
 * Order, so that every crash between two steps leaves a pair that is accepted:
 *   writable open   the mark, opening the epoch that is about to begin, is durable; then the
 *                   superblock with that epoch, the image's entry and IMAGE_FLAG_MARKED; then
 *                   the mark of that epoch, not opening any more; then the first record
 *   clean stop      the superblock that says CLEAN is durable; then the mark is removed
 * An image that joins while the server runs goes the same way in the epoch that has begun, and one
 * that is not opened in an epoch keeps its mark of an older one: the image's entry says which.
 * So a mark is of the epoch that its entry says, or opening a newer one: anything else means that one
 * of the two files was restored from a copy.  (Without the third step the most usual mistake
 * could not be told from a crash: a copy of the journal of just before this epoch.)
 */
#ifndef JOURNAL_ATTACH_H
#define JOURNAL_ATTACH_H

#include "core.h"
#include "format.h"
#include "storage.h"

/* ---- creating ---- */

/* Size for a new journal of an image of image_bytes: see the .c file for the reasons. */
uint64_t journal_default_size(uint64_t image_bytes);

/* Creates a journal.  A file: never over an existing one, 0600, allocated, its first part
 * written (the engine prewrites the rest in the background), superblocks written and durable,
 * then the directory fsynced; no half-made journal is ever visible under `path`, and a symbolic
 * link there is refused.  A block device: only if the place of the superblocks is all zeroes,
 * or force; journal_bytes 0 = whole device.  -EEXIST, -ENOSPC, -EINVAL (size out of bounds),
 * ...; reported. */
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
    bool serves_folder;   /* dir=: images that it does not know yet are welcome */
};

/* Opens a journal and reads its superblocks.  Refuses with a clear report: no journal, other
 * byte order, newer version, unknown incompatible feature, unknown feature_ro unless INSPECT
 * (-EINVAL); both copies damaged, file shorter than its superblock says (-EUCLEAN); -EBUSY,
 * -errno.  On error *jf needs no journal_close. */
int journal_open(struct journal_file *jf, const char *path, enum attach_mode mode);
/* The same with a storage that the caller opened; it is taken over, also on failure. */
int journal_open_storage(struct journal_file *jf, struct storage *storage,
                         enum attach_mode mode);
void journal_close(struct journal_file *jf);

/* The identity of an opened image, as the system tells it now (uuid from its mark if it has
 * one, else zero; id, flags 0).  Reported. */
int image_identify(struct storage *image, struct image_entry *out);

/* What an image says about its journal. */
struct image_mark {
    bool present;
    uint8_t journal_uuid[FORMAT_UUID_BYTES];
    uint8_t image_uuid[FORMAT_UUID_BYTES];
    uint32_t epoch;  /* of the writable open that wrote it; 0: not known, not compared */
    bool is_opening; /* epoch is about to begin: core_stats.epoch + 1 before core_activate */
    char journal_path[4096]; /* for people; control characters are replaced when it is read */
};

/* 0 also where there can be none.  -EUCLEAN: the attribute is no text of ours.  Reported. */
int image_mark_read(struct storage *image, struct image_mark *mark);

/* Writes the mark and makes it durable (fsync).  0 also where there can be none (*supported
 * false, one line said): the file system has no such attributes, or this user may write the
 * image but not its attributes.  If *supported, the image's entry must get IMAGE_FLAG_MARKED.
 * -errno: reported. */
int image_mark_write(struct storage *image, const struct image_mark *mark, bool *supported);

/* 0 also if there is none.  -errno: reported. */
int image_mark_remove(struct storage *image);

enum image_match {
    /* the table does not know it and nobody else claims it: may be added (if its mark named
     * this journal, with the mark's uuid) */
    MATCH_NEW,
    MATCH_KNOWN, /* the table knows it and everything agrees */
    /* something differs (size, inode...) but the journal holds nothing for it: the entry may be
     * replaced, keeping its uuid */
    MATCH_CLEAN,
    MATCH_REFUSED, /* reported: foreign mark, dirty and different, ... with the way out */
};
/* Compares.  `clean`: the journal holds no records (state CLEAN).  On KNOWN and CLEAN, *known
 * is the entry of the table (inside jf->sb), else NULL. */
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
