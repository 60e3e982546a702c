/* stamp: sectors that say what they are.
 *
 * Every sector that a verified load writes is, with little-endian numbers:
 *
 *        0   8   magic "nbdload1"
 *        8  16   the ledger's random id
 *       24   8   the sector's byte offset on its disk
 *       32   8   sequence: the write's number in the ledger, never used twice
 *       40   8   byte offset of the write's first sector
 *       48   4   length of the write in bytes
 *       52   4   writer: the lane that sent it
 *       56   4   disk: its number in the ledger
 *       60   4   0
 *       64 440   filler that follows from sequence and offset
 *      504   8   XXH3-64 of all before
 *
 * So a sector alone tells a lost write from a torn, a misplaced and an invented one, and names all
 * other sectors that must be there with it.
 */
#ifndef NBDLOAD_STAMP_H
#define NBDLOAD_STAMP_H

#include <stddef.h>
#include <stdint.h>

#define SECTOR 512u
#define LEDGER_ID_BYTES 16

enum stamp_state {
    STAMP_GOOD,
    STAMP_ZEROES,    /* nothing but them */
    STAMP_NONE,      /* other bytes than a load's */
    STAMP_FOREIGN,   /* of another ledger */
    STAMP_DAMAGED,   /* begins like ours, and the checksum is wrong */
    STAMP_MISPLACED, /* whole, but of another sector */
};

struct stamp {
    uint64_t sector_offset;
    uint64_t sequence;
    uint64_t start;
    uint32_t length;
    uint32_t writer;
    uint32_t disk;
};

/* What a buffer of whole sectors says for a write of `length` bytes at `start`. */
void stamp_fill(void *buffer, const uint8_t id[LEDGER_ID_BYTES], uint32_t disk, uint32_t writer,
                uint64_t sequence, uint64_t start, uint32_t length);

/* Looks at the sector that was read from this place.  `stamp` is filled in when the state is
 * good or misplaced. */
enum stamp_state stamp_check(const void *sector, const uint8_t id[LEDGER_ID_BYTES],
                             uint32_t disk, uint64_t sector_offset, struct stamp *stamp);

/* What was found, in words: "write 12 (4096 bytes at 8192, writer 3)". */
void stamp_describe(char *text, size_t size, enum stamp_state state, const struct stamp *stamp,
                    const void *sector);

#endif
