/* datalog: see datalog.h. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datalog.h"
#include "report.h"

#define MAGIC_REQUEST UINT32_C(0x25609513)
#define MAGIC_REPLY UINT32_C(0x67446698)
#define MAGIC_OPTION UINT32_C(0x25609514)
#define OPTION_DATALOG 1u
#define OPTION_OFFSET UINT64_C(0x4A93BA39A54F31B6)

#define COMMAND_WRITE 1u
#define COMMAND_TRIM 4u
#define COMMAND_WRITE_ZEROES 6u
#define FLAG_FUA 1u
#define FLAG_NO_HOLE 2u

/* A length has 32 bits: longer trims and zeroes are split on a large power of two, so that the
 * parts have as large a common block as the whole. */
#define PIECE_MAX (UINT64_C(1) << 31)

/* What nbd-trplay's buffer holds. */
#define TRPLAY_BLOCK_MAX (128u << 10)
#define TRPLAY_BLOCK_DEFAULT 512u

struct wire_request {
    uint32_t magic;
    uint16_t flags;
    uint16_t command;
    uint64_t cookie;
    uint64_t offset;
    uint32_t length;
} __attribute__((packed));

struct wire_reply {
    uint32_t magic;
    uint32_t error;
    uint64_t cookie;
} __attribute__((packed));

static int put(struct datalog *log, const void *bytes, size_t count)
{
    if (count == 0 || fwrite(bytes, count, 1, log->out) == 1)
        return 0;
    report_error("datalog: write failed: %s", report_reason(errno));
    return errno != 0 ? -errno : -EIO;
}

static int put_request(struct datalog *log, uint32_t magic, uint16_t flags, uint16_t command,
                       uint64_t cookie, uint64_t offset, uint32_t length)
{
    struct wire_request request = {.magic = htobe32(magic),
                                   .flags = htobe16(flags),
                                   .command = htobe16(command),
                                   .cookie = htobe64(cookie),
                                   .offset = htobe64(offset),
                                   .length = htobe32(length)};

    return put(log, &request, sizeof(request));
}

int datalog_begin(struct datalog *log, FILE *out, const struct journal_file *jf)
{
    *log = (struct datalog){.out = out, .jf = jf};
    return put_request(log, MAGIC_OPTION, 0, OPTION_DATALOG, 0, OPTION_OFFSET, 1);
}

/* The record was proven a moment ago, through another reading: this one is proven as well. */
static int read_payload(struct datalog *log, const struct record *record)
{
    const struct superblock *sb = &log->jf->sb;
    uint64_t at = sb->ring_start + (record->position + FORMAT_RECORD_BYTES) % sb->ring_bytes;
    uint8_t *larger;
    int r;

    if (record->payload_bytes > log->payload_room) {
        larger = realloc(log->payload, record->payload_bytes);
        if (larger == NULL) {
            report_error("%s: %s", log->jf->storage->name, report_reason(ENOMEM));
            return -ENOMEM;
        }
        log->payload = larger;
        log->payload_room = record->payload_bytes;
    }
    r = storage_read(log->jf->storage, log->payload, record->payload_bytes, at);
    if (r < 0) {
        report_error("%s: read of %" PRIu32 " bytes at %" PRIu64 ": %s", log->jf->storage->name,
                     record->payload_bytes, at, report_reason(-r));
        return r;
    }
    if (format_sum(format_seed(sb->uuid), log->payload, record->payload_bytes) ==
        record->payload_sum)
        return 0;
    report_error("%s: record %" PRIu64 " changed while it was read%s", log->jf->storage->name,
                 record->lsn,
                 log->jf->in_use ? ": its server is at work; try again, or stop it" : "");
    return -EAGAIN;
}

static int add_piece(struct datalog *log, const struct record *record, uint16_t command,
                     uint64_t offset, uint32_t length)
{
    uint16_t flags = (record->flags & RECORD_FLAG_FUA ? FLAG_FUA : 0) |
                     (record->kind == RECORD_ZERO ? FLAG_NO_HOLE : 0);
    uint64_t cookie = ++log->requests;
    struct wire_reply reply = {.magic = htobe32(MAGIC_REPLY), .cookie = htobe64(cookie)};
    int r;

    log->all_bits |= offset | length;
    r = put_request(log, MAGIC_REQUEST, flags, command, cookie, offset, length);
    if (r == 0 && command == COMMAND_WRITE)
        r = put(log, log->payload, length);
    return r < 0 ? r : put(log, &reply, sizeof(reply));
}

/* Its image ends here, whatever a record says (recovery does not go beyond either). */
static uint64_t image_end(const struct datalog *log, uint32_t image_id)
{
    const struct superblock *sb = &log->jf->sb;

    for (uint32_t i = 0; i < sb->image_count; i++) {
        if (sb->images[i].id == image_id)
            return sb->images[i].size;
    }
    return 0;
}

int datalog_add(struct datalog *log, const struct record *record)
{
    uint64_t offset = record->offset, end = record->offset + record->length;
    uint64_t last = image_end(log, record->image_id);
    int r = 0;

    if (record->kind == RECORD_WRITE) {
        r = read_payload(log, record);
        if (r == 0)
            r = add_piece(log, record, COMMAND_WRITE, offset, record->payload_bytes);
        return r;
    }
    if (end > last)
        end = last;
    while (offset < end && r == 0) {
        uint32_t piece = end - offset < PIECE_MAX ? end - offset : PIECE_MAX;

        r = add_piece(log, record,
                      record->kind == RECORD_TRIM ? COMMAND_TRIM : COMMAND_WRITE_ZEROES, offset,
                      piece);
        offset += piece;
    }
    return r;
}

unsigned datalog_end(struct datalog *log)
{
    uint64_t block = log->all_bits & -log->all_bits;

    free(log->payload);
    if (block == 0)
        return TRPLAY_BLOCK_DEFAULT;
    return block < TRPLAY_BLOCK_MAX ? (unsigned)block : TRPLAY_BLOCK_MAX;
}
