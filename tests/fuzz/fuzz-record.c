/* fuzz-record: any 128 bytes as a record's header.
 *
 * Depending on the first byte, the input is a header as it is, or a list of changes to a valid
 * one, after which the checksum is made right again, as if the writer had meant it.  What is
 * accepted must be what the writer could have written: encoding it again gives the same bytes
 * (the encoder asserts all that the format promises).
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SEED 0x1234
#define POSITION (3 * RING_BYTES + 4096)
#define RING_BYTES (UINT64_C(1) << 20)
#define CHANGE_BYTES 3

static void check(const uint8_t *header, uint64_t position)
{
    uint8_t again[FORMAT_RECORD_BYTES];
    struct record r;

    if (format_record_decode(SEED, header, position, RING_BYTES, &r) != FORMAT_OK)
        return;
    assert(r.position == position);
    assert(position % RING_BYTES + r.span_bytes <= RING_BYTES);
    assert(FORMAT_RECORD_BYTES + (uint64_t)r.payload_bytes <= r.span_bytes);
    format_record_encode(SEED, &r, again);
    assert(memcmp(again, header, sizeof(again)) == 0);
}

static void make_valid(uint8_t which, uint8_t header[FORMAT_RECORD_BYTES])
{
    struct record r = {
        .kind = RECORD_WRITE + which % 5,
        .epoch = 1,
        .lsn = 100,
        .durable_lsn = 99,
        .position = POSITION,
        .chain = 5,
        .span_bytes = 4096 + FORMAT_UNIT,
    };

    if (r.kind <= RECORD_ZERO) {
        r.image_id = 1;
        r.offset = 12345;
        r.length = 4096;
        r.flags = RECORD_FLAG_FUA;
    }
    if (r.kind == RECORD_WRITE)
        r.payload_bytes = 4096;
    if (r.kind == RECORD_EPOCH)
        r.cut_lsn = 50;
    format_record_encode(SEED, &r, header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t header[FORMAT_RECORD_BYTES] = {0};
    uint64_t position, sum;

    if (size < 1)
        return 0;
    if (data[0] % 8 == 0) {
        memcpy(header, data + 1, size - 1 < sizeof(header) ? size - 1 : sizeof(header));
    } else {
        make_valid(data[0] >> 3, header);
        for (size_t at = 1; at + CHANGE_BYTES <= size; at += CHANGE_BYTES) {
            uint8_t *byte = &header[data[at] % sizeof(header)];

            *byte = data[at + 1] & 1 ? *byte ^ 1 << data[at + 1] / 2 % 8 : data[at + 2];
        }
        check(header, POSITION);
        sum = format_sum(SEED, header, 120);
        memcpy(header + 120, &sum, sizeof(sum));
    }
    check(header, POSITION);
    memcpy(&position, header + 32, sizeof(position));
    check(header, position);
    return 0;
}
