/* stamp: see stamp.h. */
#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "choice.h"
#include "stamp.h"

#define FILLER_WORDS 55

struct sector {
    uint8_t magic[8];
    uint8_t id[LEDGER_ID_BYTES];
    uint64_t sector_offset;
    uint64_t sequence;
    uint64_t start;
    uint32_t length;
    uint32_t writer;
    uint32_t disk;
    uint32_t zero;
    uint64_t filler[FILLER_WORDS];
    uint64_t checksum;
};

_Static_assert(sizeof(struct sector) == SECTOR, "a stamp is a sector");
_Static_assert(offsetof(struct sector, checksum) == 504, "no hidden padding");

static const uint8_t stamp_magic[8] = "nbdload1";

static uint64_t sector_checksum(const struct sector *s)
{
    return XXH3_64bits(s, offsetof(struct sector, checksum));
}

void stamp_fill(void *buffer, const uint8_t id[LEDGER_ID_BYTES], uint32_t disk, uint32_t writer,
                uint64_t sequence, uint64_t start, uint32_t length)
{
    uint8_t *out = buffer;

    assert(length % SECTOR == 0);
    for (uint64_t offset = start; offset < start + length; offset += SECTOR, out += SECTOR) {
        struct random filler = {.state = sequence ^ offset << 20};
        struct sector s = {
            .sector_offset = htole64(offset),
            .sequence = htole64(sequence),
            .start = htole64(start),
            .length = htole32(length),
            .writer = htole32(writer),
            .disk = htole32(disk),
        };

        memcpy(s.magic, stamp_magic, sizeof s.magic);
        memcpy(s.id, id, sizeof s.id);
        for (int i = 0; i < FILLER_WORDS; i++)
            s.filler[i] = htole64(random_next(&filler));
        s.checksum = htole64(sector_checksum(&s));
        memcpy(out, &s, sizeof s);
    }
}

static bool all_zeroes(const uint8_t *sector)
{
    return sector[0] == 0 && memcmp(sector, sector + 1, SECTOR - 1) == 0;
}

enum stamp_state stamp_check(const void *sector, const uint8_t id[LEDGER_ID_BYTES],
                             uint32_t disk, uint64_t sector_offset, struct stamp *stamp)
{
    struct sector s;

    memcpy(&s, sector, sizeof s);
    if (memcmp(s.magic, stamp_magic, sizeof s.magic) != 0)
        return all_zeroes(sector) ? STAMP_ZEROES : STAMP_NONE;
    if (le64toh(s.checksum) != sector_checksum(&s))
        return STAMP_DAMAGED;
    if (memcmp(s.id, id, sizeof s.id) != 0)
        return STAMP_FOREIGN;
    *stamp = (struct stamp){
        .sector_offset = le64toh(s.sector_offset),
        .sequence = le64toh(s.sequence),
        .start = le64toh(s.start),
        .length = le32toh(s.length),
        .writer = le32toh(s.writer),
        .disk = le32toh(s.disk),
    };
    return stamp->disk == disk && stamp->sector_offset == sector_offset ? STAMP_GOOD
                                                                        : STAMP_MISPLACED;
}

void stamp_describe(char *text, size_t size, enum stamp_state state, const struct stamp *stamp,
                    const void *sector)
{
    const uint8_t *bytes = sector;

    switch (state) {
    case STAMP_GOOD:
        snprintf(text, size,
                 "write %" PRIu64 " (%" PRIu32 " bytes at %" PRIu64 ", writer %" PRIu32 ")",
                 stamp->sequence, stamp->length, stamp->start, stamp->writer);
        return;
    case STAMP_MISPLACED:
        snprintf(text, size,
                 "what write %" PRIu64 " wrote to another sector: disk %" PRIu32
                 ", offset %" PRIu64,
                 stamp->sequence, stamp->disk, stamp->sector_offset);
        return;
    case STAMP_ZEROES:
        snprintf(text, size, "zeroes");
        return;
    case STAMP_DAMAGED:
        snprintf(text, size, "a sector of a load with a wrong checksum");
        return;
    case STAMP_FOREIGN:
        snprintf(text, size, "a sector of another ledger's load");
        return;
    case STAMP_NONE:
        snprintf(text, size, "other bytes: %02x %02x %02x %02x %02x %02x %02x %02x ...",
                 bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6],
                 bytes[7]);
        return;
    }
}
