/* fuzz-recover: any ring, read by the real recovery.
 *
 * The input is a list of orders, 16 bytes each, that lay records into a small ring: mostly right
 * ones, each the next after the one before, so that recovery goes deep; each order can bend one
 * field before the checksum is computed, leave a gap, or spoil bytes afterwards.  Recovery must
 * end after reading each byte a bounded number of times, stay inside the ring, and leave a map
 * whose reads stay inside the ring.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RING_BYTES (64u << 10)
#define IMAGE_BYTES 100000u
#define ORDER_BYTES 16

struct layout {
    uint8_t ring[RING_BYTES];
    uint64_t seed, position, lsn, chain;
    uint32_t epoch;
};

static void bend(struct record *r, uint8_t which, uint64_t by)
{
    switch (which) {
    case 1:
        r->lsn ^= by;
        break;
    case 2:
        r->chain ^= by;
        break;
    case 3:
        r->epoch ^= by;
        break;
    case 4:
        r->position += by * FORMAT_UNIT;
        break;
    case 5:
        r->offset ^= by << 8;
        break;
    case 6:
        r->durable_lsn ^= by;
        break;
    case 7:
        r->span_bytes += by * FORMAT_UNIT;
        break;
    case 8:
        r->image_id ^= by;
        break;
    case 9:
        r->payload_sum ^= by;
        break;
    case 10:
        r->cut_lsn ^= by;
        break;
    case 11:
        r->length ^= by << 40;
        break;
    }
}

/* The header's bytes as the writer would lay them, without its assertions. */
static void encode(const struct layout *l, struct record *r, uint8_t out[FORMAT_RECORD_BYTES])
{
    uint16_t flags = r->flags;

    memset(out, 0, FORMAT_RECORD_BYTES);
    memcpy(out, "JREC", 4);
    out[4] = r->kind;
    out[5] = FORMAT_VERSION;
    memcpy(out + 6, &flags, 2);
    memcpy(out + 8, &r->epoch, 4);
    memcpy(out + 12, &r->image_id, 4);
    memcpy(out + 16, &r->lsn, 8);
    memcpy(out + 24, &r->durable_lsn, 8);
    memcpy(out + 32, &r->position, 8);
    memcpy(out + 40, &r->chain, 8);
    memcpy(out + 48, &r->offset, 8);
    memcpy(out + 56, &r->length, 8);
    memcpy(out + 64, &r->cut_lsn, 8);
    memcpy(out + 80, &r->payload_sum, 8);
    memcpy(out + 88, &r->payload_bytes, 4);
    memcpy(out + 96, &r->span_bytes, 8);
    r->header_sum = format_sum(l->seed, out, 120);
    memcpy(out + 120, &r->header_sum, 8);
}

static void obey(struct layout *l, const uint8_t order[ORDER_BYTES])
{
    static const enum record_kind kinds[] = {RECORD_WRITE, RECORD_TRIM,  RECORD_ZERO,
                                             RECORD_PAD,   RECORD_EPOCH, RECORD_REVOKE,
                                             RECORD_WRITE, RECORD_WRITE};
    uint64_t at, payload = order[1] * 16 + 1, room;
    struct record r = {.kind = kinds[order[0] % 8]};
    uint8_t header[FORMAT_RECORD_BYTES];

    if (r.kind == RECORD_EPOCH) {
        l->position = (l->position + 4095) / 4096 * 4096;
        r.cut_lsn = l->lsn;
        l->lsn += 1000;
        l->epoch++;
    }
    if (r.kind != RECORD_WRITE)
        payload = 0;
    at = l->position % RING_BYTES;
    room = RING_BYTES - at;
    if (format_span(payload) > room)
        payload = room - FORMAT_RECORD_BYTES;
    r.epoch = l->epoch;
    r.lsn = l->lsn + 1;
    r.durable_lsn = order[2] < r.lsn ? r.lsn - order[2] - 1 : 0;
    r.position = l->position;
    r.chain = l->chain;
    r.payload_bytes = payload;
    r.span_bytes = format_span(payload);
    if (r.kind == RECORD_PAD && order[1] * FORMAT_UNIT > r.span_bytes)
        r.span_bytes = order[1] * FORMAT_UNIT < room ? order[1] * FORMAT_UNIT : room;
    if (r.kind <= RECORD_ZERO) {
        r.image_id = 1;
        r.offset = order[3] | order[4] << 8;
        r.length = r.kind == RECORD_WRITE ? payload : 1 + (order[5] | order[6] << 8);
    }
    memset(l->ring + at + FORMAT_RECORD_BYTES, order[7], payload);
    if (payload > 0)
        r.payload_sum = format_sum(l->seed, l->ring + at + FORMAT_RECORD_BYTES, payload);
    bend(&r, order[8] % 32, order[9]);
    encode(l, &r, header);
    memcpy(l->ring + at, header, sizeof(header));
    if (order[10] % 16 == 1)
        l->ring[(at + (order[11] | order[12] << 8)) % RING_BYTES] ^= order[13] | 1;
    l->lsn++;
    l->chain = r.header_sum;
    l->position += order[14] % 16 == 1 ? order[15] * FORMAT_UNIT : format_span(payload);
    if (r.kind == RECORD_PAD && order[14] % 16 != 1)
        l->position += r.span_bytes - format_span(payload);
}

static void read_everything(struct core *c)
{
    struct core_image *image = core_image_find(c, 1);
    struct read_plan plan;
    uint64_t at = 0;

    memset(&plan, 0, sizeof(plan));
    if (core_read_begin(c, image, 0, IMAGE_BYTES, &plan) < 0)
        return;
    for (size_t i = 0; i < plan.count; i++) {
        const struct read_segment *s = &plan.segments[i];

        assert(s->offset == at && s->length > 0);
        at += s->length;
        if (s->source == READ_JOURNAL)
            assert(s->position % RING_BYTES + s->length <= RING_BYTES);
    }
    assert(at == IMAGE_BYTES);
    core_read_end(c, &plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct layout l; /* large */
    static const uint8_t uuid[FORMAT_UUID_BYTES] = {1, 2, 3};
    struct image_entry image = {
        .uuid = {9}, .id = 1, .kind = IMAGE_FILE, .size = IMAGE_BYTES, .inode = 1};
    struct superblock sb;
    struct core *core;
    struct recovery *r;
    struct recovery_result result;
    uint64_t position, seen = 0;
    size_t count, piece;

    if (size < 1)
        return 0;
    format_super_init(&sb, uuid, FORMAT_JOURNAL_MIN, 0);
    sb.ring_bytes = RING_BYTES;
    sb.sector_bytes = data[0] & 1 ? 512 : 4096;
    sb.state = data[0] & 2 && data[0] & 4 ? SUPER_STATE_CLEAN : 0;
    sb.epoch = 3;
    sb.tail = (struct ring_mark){.position = 5 * RING_BYTES + (data[0] >> 4) * 4096u,
                                 .lsn = 100,
                                 .chain = 7,
                                 .epoch = 3};
    sb.images = &image;
    sb.image_count = 1;
    sb.next_image_id = 2;
    piece = data[0] & 8 ? 4 << 20 : 65536;

    memset(&l, 0, sizeof(l));
    l.seed = format_seed(uuid);
    l.position = sb.tail.position;
    l.lsn = sb.tail.lsn;
    l.chain = sb.tail.chain;
    l.epoch = sb.tail.epoch;
    for (size_t at = 1; at + ORDER_BYTES <= size; at += ORDER_BYTES)
        obey(&l, data + at);

    if (core_create(&core, &sb, 1 << 20) < 0)
        return 0;
    assert(recovery_create(&r, core, UINT64_MAX, NULL, NULL) == 0);
    while (recovery_next(r, piece, &position, &count)) {
        assert(count > 0 && position % sb.sector_bytes == 0 && count % sb.sector_bytes == 0);
        assert(position % RING_BYTES + count <= RING_BYTES);
        assert(position >= sb.tail.position &&
               position + count <= sb.tail.position + RING_BYTES);
        seen += count;
        assert(seen <= 64 * RING_BYTES);
        /* A copy of exactly this length: the sanitizer sees a read beyond. */
        uint8_t *bytes = malloc(count);

        memcpy(bytes, l.ring + position % RING_BYTES, count);
        if (recovery_feed(r, bytes, count) < 0) {
            free(bytes);
            break;
        }
        free(bytes);
    }
    recovery_finish(r, &result);
    assert(result.cut.position >= sb.tail.position &&
           result.cut.position <= sb.tail.position + RING_BYTES);
    assert(result.cut.lsn >= sb.tail.lsn);
    if (result.verdict != RECOVERY_DAMAGED)
        read_everything(core);
    core_destroy(core);
    return 0;
}
