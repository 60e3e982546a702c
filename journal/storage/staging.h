/* staging: the newest records of a journal, in memory that outlives the process.
 *
 * Why.  A record must survive kill -9 when it is answered (P0) and power loss when it is
 * flushed (P1).  The page cache gives the first for nothing, but a buffered journal pays for
 * it: pages are read from the disk before they are written in part, and fdatasync has to find
 * them.  Measured (ext4, one thread, 4 KiB write + flush, in one run): random writes to a file
 * 1.0, buffered journal 1.35, the same with its pages evicted 0.88, staging with direct I/O
 * 2.0.
 *
 * How.  A file of S bytes in /dev/shm, mapped.  The byte at virtual position v of the ring is
 * staged at S-ring offset v % S.  A write of a record is one memcpy into it; submit writes
 * whole sectors from the mapping with O_DIRECT, in order; a barrier is one fdatasync.  At most
 * U = S/2 bytes are not submitted (the core sees to it: core_staging_set), and bytes newer
 * than U behind the newest are read from memory, so a reader never looks at a slot that can be
 * overwritten: the core lets no record in that would reach more than U beyond what was
 * published when a reader began.
 *
 * The file's first page says whose it is:
 *
 *    0  4 magic "JSTG"      4  4 version, 1       8 16 journal UUID     24 16 boot id
 *   40  4 epoch            44  4 zero            48  8 S               56  8 ring_start
 *   64  8 ring_bytes       72  8 submitted: virtual position, all before it is on disk
 *   80    zero, up to 4096; then S staged bytes
 *
 * It is made under another name and renamed when complete, before the superblock of the new
 * epoch says that staging is in use and under which boot id.  After kill -9 the same boot id
 * tells the next start to read [submitted, submitted + S) from here and the rest from disk;
 * records prove themselves as always. After a host crash the boot id differs and the file, if
 * there is one, is stale. Same boot id and no file (removed, another /dev/shm): answered,
 * unflushed writes may be lost; the caller asks a person.
 *
 * Order of a start: settle (what recovery found in staging only is written to the ring,
 * barrier), new file, superblock, first record.  Native byte order: it never leaves this
 * machine.
 *
 * Storage's contract with one change: a barrier covers what was submitted.  The superblocks and
 * everything else outside the ring pass through.
 */
#ifndef JOURNAL_STAGING_H
#define JOURNAL_STAGING_H

#include "format.h"
#include "storage.h"

enum staging_found {
    /* the journal says that nothing can be staged, or the machine was restarted since */
    STAGING_UNUSED,
    STAGING_FOUND, /* what a server left behind is visible through the storage now */
    /* it should be there and is not, or is not ours: unflushed writes may be lost */
    STAGING_MISSING,
};

/* Looks for what a dead server left.  FOUND: *journal is replaced by a storage that shows it,
 * and owns the old one.  Modifies nothing.  0, -ENOMEM, -errno of the system (reported). */
int staging_attach(struct storage **journal, const struct superblock *sb,
                   enum staging_found *found);

/* Writes what is staged and not on disk up to `position` (virtual, whole sectors: the cut of
 * recovery rounded up), then a barrier.  On a storage without staging only the barrier.  0 or
 * -errno. */
int staging_settle(struct storage *journal, uint64_t position);

/* Starts staging for a new epoch at virtual position `start` (the head).  *journal is replaced
 * by a storage that stages; what staging_attach made stays valid, for those who are reading
 * through it, until the new one is closed.  *bytes and boot are for core_staging_set.  If this
 * journal or machine can't (no O_DIRECT, no room in /dev/shm; one report_info line): *bytes is
 * 0 and *journal as it was; it may be written, and passes everything on to the file.  0 or
 * -errno (reported). */
int staging_begin(struct storage **journal, const struct superblock *sb, uint32_t epoch,
                  uint64_t start, uint64_t *bytes, uint8_t boot[FORMAT_UUID_BYTES]);

/* Writes zeroes (not a hole: written extents, DESIGN 5.4) where the ring was never used yet.
 * 0 or -errno. */
int staging_prewrite(struct storage *journal, uint64_t offset, uint64_t count);

/* The largest request that is atomic (P3) while records are staged, if /dev/shm has room:
 * what people are
 * told (core_atomic_max is what is so now). */
uint32_t staging_atomic_max(uint64_t ring_bytes);

/* Removes the file: after a CLEAN superblock is durable. */
void staging_remove(struct storage *journal);

#endif
