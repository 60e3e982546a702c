/* format: encode, decode, checksums.  format.h says what the parts mean; here are the bytes.
 *
 * All integers are little-endian.  "zero" bytes are written as zeroes and checked: they are
 * what later versions have to grow in.
 *
 * Record header, 128 bytes        Superblock header, 4096 bytes    Image entry, 256 bytes
 *     0  4 magic "JREC"               0  8 magic "NBDKJRNL"            0  16 uuid
 *     4  1 kind                       8  4 version, 1                 16   4 id
 *     5  1 version, 1                12  4 byte order, 0x01020304     20   4 kind
 *     6  2 flags                     16 16 uuid                       24   4 flags
 *     8  4 epoch                     32  4 feature_compat             28   4 zero
 *    12  4 image_id                  36  4 feature_ro                 32   8 size
 *    16  8 lsn                       40  4 feature_incompat           40   8 fsid
 *    24  8 durable_lsn               44  4 sector_bytes               48   8 inode
 *    32  8 position                  48  4 super_bytes                56  40 zero
 *    40  8 chain                     52  4 state                      96 160 name
 *    48  8 offset                    56  8 ring_start
 *    56  8 length                    64  8 ring_bytes
 *    64  8 cut_lsn                   72  8 generation
 *    72  8 time_us                   80  4 epoch
 *    80  8 payload_sum               84  4 image_count
 *    88  4 payload_bytes             88  4 next_image_id
 *    92  4 zero                      92  4 zero
 *    96  8 span_bytes                96  8 tail.position
 *   104 16 zero                     104  8 tail.lsn
 *   120  8 header_sum               112  8 tail.chain
 *                                   120  4 tail.epoch
 *                                   124  4 staging_uid
 *                                   128  8 ring_written
 *                                   136  8 staging_bytes
 *                                   144 16 staging_boot
 *                                   160  8 created_us
 *                                   168  8 updated_us
 *                                   176 .. zero
 *                                  4088  8 checksum
 *
 * A record's header_sum covers bytes 0..119 of the header, the payload has a sum of its own.
 * The superblock's checksum covers its header, with the checksum itself taken as zero, and
 * image_count entries of the table that follows the header.
 *
 * Order of the checks: magic, byte order and version first, since another version may keep its
 * checksum elsewhere; then the checksum; then each field.  So "checksum wrong" means that bytes
 * were changed by accident, and "field out of range" that somebody wrote nonsense on purpose
 * or by a bug: both are refused, neither is believed.
 */
#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "format.h"
#include "planted.h"

#define RECORD_MAGIC "JREC"

#define BYTE_ORDER_MARK UINT32_C(0x01020304)
#define BYTE_ORDER_OTHER UINT32_C(0x04030201)

/* No offset, length or position that is used in sums goes beyond, so that none wraps around. */
#define BYTES_MAX ((uint64_t)INT64_MAX)

/* The smallest ring in which a 4 KiB request is one record (format_atomic_max). */
#define RING_MIN (8u * 4096u)

struct disk_record {
    char magic[4];
    uint8_t kind;
    uint8_t version;
    uint16_t flags;
    uint32_t epoch;
    uint32_t image_id;
    uint64_t lsn;
    uint64_t durable_lsn;
    uint64_t position;
    uint64_t chain;
    uint64_t offset;
    uint64_t length;
    uint64_t cut_lsn;
    uint64_t time_us;
    uint64_t payload_sum;
    uint32_t payload_bytes;
    uint32_t zero32;
    uint64_t span_bytes;
    uint8_t zero[16];
    uint64_t header_sum;
} __attribute__((packed));

_Static_assert(sizeof(struct disk_record) == FORMAT_RECORD_BYTES, "record header");
_Static_assert(offsetof(struct disk_record, lsn) == 16, "record header");
_Static_assert(offsetof(struct disk_record, cut_lsn) == 64, "record header");
_Static_assert(offsetof(struct disk_record, payload_bytes) == 88, "record header");
_Static_assert(offsetof(struct disk_record, span_bytes) == 96, "record header");
_Static_assert(offsetof(struct disk_record, header_sum) == 120, "record header");

struct disk_super {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint8_t uuid[FORMAT_UUID_BYTES];
    uint32_t feature_compat;
    uint32_t feature_ro;
    uint32_t feature_incompat;
    uint32_t sector_bytes;
    uint32_t super_bytes;
    uint32_t state;
    uint64_t ring_start;
    uint64_t ring_bytes;
    uint64_t generation;
    uint32_t epoch;
    uint32_t image_count;
    uint32_t next_image_id;
    uint32_t zero32;
    uint64_t tail_position;
    uint64_t tail_lsn;
    uint64_t tail_chain;
    uint32_t tail_epoch;
    uint32_t staging_uid;
    uint64_t ring_written;
    uint64_t staging_bytes;
    uint8_t staging_boot[FORMAT_UUID_BYTES];
    uint64_t created_us;
    uint64_t updated_us;
    uint8_t zero[3912];
    uint64_t checksum;
} __attribute__((packed));

_Static_assert(sizeof(struct disk_super) == FORMAT_HEADER_BYTES, "superblock header");
_Static_assert(offsetof(struct disk_super, ring_start) == 56, "superblock header");
_Static_assert(offsetof(struct disk_super, tail_position) == 96, "superblock header");
_Static_assert(offsetof(struct disk_super, ring_written) == 128, "superblock header");
_Static_assert(offsetof(struct disk_super, updated_us) == 168, "superblock header");
_Static_assert(offsetof(struct disk_super, checksum) == 4088, "superblock header");

struct disk_image {
    uint8_t uuid[FORMAT_UUID_BYTES];
    uint32_t id;
    uint32_t kind;
    uint32_t flags;
    uint32_t mark_epoch;
    uint64_t size;
    uint64_t fsid;
    uint64_t inode;
    uint8_t zero[40];
    char name[FORMAT_NAME_BYTES];
} __attribute__((packed));

_Static_assert(sizeof(struct disk_image) == FORMAT_IMAGE_BYTES, "image entry");
_Static_assert(offsetof(struct disk_image, size) == 32, "image entry");
_Static_assert(offsetof(struct disk_image, name) == 96, "image entry");

static bool all_zero(const void *bytes, size_t count)
{
    const uint8_t *b = bytes;

    /* The first is zero, and each is as the one before it. */
    return count == 0 || (b[0] == 0 && memcmp(b, b + 1, count - 1) == 0);
}

/* ---- checksums and sizes ---- */

uint64_t format_seed(const uint8_t uuid[FORMAT_UUID_BYTES])
{
    uint64_t seed;

    memcpy(&seed, uuid, sizeof(seed));
    return le64toh(seed);
}

uint64_t format_sum(uint64_t seed, const void *bytes, size_t count)
{
    return XXH3_64bits_withSeed(bytes, count, seed);
}

uint32_t format_atomic_max(uint64_t ring_bytes)
{
    uint64_t eighth = ring_bytes / 8 / 4096 * 4096;

    return eighth < FORMAT_RECORD_MAX ? eighth : FORMAT_RECORD_MAX;
}

uint64_t format_span(uint64_t payload_bytes)
{
    return (FORMAT_RECORD_BYTES + payload_bytes + FORMAT_UNIT - 1) / FORMAT_UNIT * FORMAT_UNIT;
}

uint64_t format_lsn_beyond(const struct ring_mark *tail, uint32_t epoch, uint64_t ring_bytes)
{
    uint64_t epochs = 2 * ((uint64_t)epoch - tail->epoch) + 2;
    uint64_t lsn;

    if (__builtin_mul_overflow(epochs, 1 + ring_bytes / FORMAT_UNIT, &lsn) ||
        __builtin_add_overflow(lsn, tail->lsn, &lsn))
        return UINT64_MAX;
    return lsn;
}

/* ---- records ---- */

static bool record_kind_valid(const struct record *r)
{
    bool is_change =
        r->kind == RECORD_WRITE || r->kind == RECORD_TRIM || r->kind == RECORD_ZERO;

    if (is_change) {
        if (r->image_id == 0 || r->length == 0 || r->offset > BYTES_MAX ||
            r->length > BYTES_MAX - r->offset)
            return false;
        if ((r->flags & ~RECORD_FLAG_FUA) != 0)
            return false;
    } else if (r->image_id != 0 || r->offset != 0 || r->length != 0 || r->flags != 0) {
        return false;
    }

    if (r->kind == RECORD_WRITE) {
        if (r->payload_bytes != r->length)
            return false;
    } else if (r->payload_bytes != 0 || r->payload_sum != 0) {
        return false;
    }

    switch (r->kind) {
    case RECORD_WRITE:
    case RECORD_TRIM:
    case RECORD_ZERO:
    case RECORD_PAD:
        return r->cut_lsn == 0;
    case RECORD_EPOCH:
        return r->cut_lsn < r->lsn;
    case RECORD_REVOKE: /* not in version 1 */
        return false;
    }
    return false;
}

/* What the writer asserts and the reader checks. */
static bool record_valid(const struct record *r)
{
    return r->epoch >= 1 && r->lsn >= 1 && r->lsn <= FORMAT_LSN_MAX &&
           r->durable_lsn < r->lsn && r->position % FORMAT_UNIT == 0 &&
           r->position <= BYTES_MAX && r->payload_bytes <= FORMAT_RECORD_MAX &&
           r->span_bytes % FORMAT_UNIT == 0 && r->span_bytes >= format_span(r->payload_bytes) &&
           r->span_bytes <= FORMAT_JOURNAL_MAX && record_kind_valid(r);
}

/* What the checksum of a record's header covers. */
static size_t record_summed_bytes(void)
{
    if (PLANTED(5)) /* the length is left out */
        return offsetof(struct disk_record, length);
    return offsetof(struct disk_record, header_sum);
}

void format_record_encode(uint64_t seed, struct record *r, uint8_t out[FORMAT_RECORD_BYTES])
{
    struct disk_record d = {
        .magic = {'J', 'R', 'E', 'C'},
        .kind = r->kind,
        .version = FORMAT_VERSION,
        .flags = htole16(r->flags),
        .epoch = htole32(r->epoch),
        .image_id = htole32(r->image_id),
        .lsn = htole64(r->lsn),
        .durable_lsn = htole64(r->durable_lsn),
        .position = htole64(r->position),
        .chain = htole64(r->chain),
        .offset = htole64(r->offset),
        .length = htole64(r->length),
        .cut_lsn = htole64(r->cut_lsn),
        .time_us = htole64(r->time_us),
        .payload_sum = htole64(r->payload_sum),
        .payload_bytes = htole32(r->payload_bytes),
        .span_bytes = htole64(r->span_bytes),
    };

    assert(record_valid(r));
    r->header_sum = format_sum(seed, &d, record_summed_bytes());
    d.header_sum = htole64(r->header_sum);
    memcpy(out, &d, sizeof(d));
}

enum format_verdict format_record_decode(uint64_t seed, const uint8_t in[FORMAT_RECORD_BYTES],
                                         uint64_t position, uint64_t ring_bytes,
                                         struct record *r)
{
    struct disk_record d;

    /* A search for records looks at every 128 bytes of the ring: this is its fast way out. */
    if (memcmp(in, RECORD_MAGIC, sizeof(d.magic)) != 0)
        return FORMAT_NO_MAGIC;
    memcpy(&d, in, sizeof(d));
    if (format_sum(seed, in, record_summed_bytes()) != le64toh(d.header_sum))
        return FORMAT_BAD_SUM;
    if (d.version > FORMAT_VERSION)
        return FORMAT_NEW_VERSION;

    *r = (struct record){
        .kind = d.kind,
        .flags = le16toh(d.flags),
        .epoch = le32toh(d.epoch),
        .image_id = le32toh(d.image_id),
        .lsn = le64toh(d.lsn),
        .durable_lsn = le64toh(d.durable_lsn),
        .position = le64toh(d.position),
        .chain = le64toh(d.chain),
        .offset = le64toh(d.offset),
        .length = le64toh(d.length),
        .cut_lsn = le64toh(d.cut_lsn),
        .time_us = le64toh(d.time_us),
        .payload_sum = le64toh(d.payload_sum),
        .payload_bytes = le32toh(d.payload_bytes),
        .span_bytes = le64toh(d.span_bytes),
        .header_sum = le64toh(d.header_sum),
    };
    if (d.version != FORMAT_VERSION || d.zero32 != 0 || !all_zero(d.zero, sizeof(d.zero)) ||
        r->position != position || !record_valid(r) ||
        r->span_bytes > ring_bytes - position % ring_bytes)
        return FORMAT_BAD_FIELD;
    return FORMAT_OK;
}

/* ---- superblocks ---- */

uint32_t format_images_max(const struct superblock *sb)
{
    return (sb->super_bytes - FORMAT_HEADER_BYTES) / FORMAT_IMAGE_BYTES;
}

void format_super_init(struct superblock *sb, const uint8_t uuid[FORMAT_UUID_BYTES],
                       uint64_t journal_bytes, uint64_t now_us)
{
    uint64_t ring_start = 2 * FORMAT_SUPER_BYTES;

    assert(journal_bytes >= FORMAT_JOURNAL_MIN && journal_bytes <= FORMAT_JOURNAL_MAX);
    *sb = (struct superblock){
        .sector_bytes = FORMAT_SECTOR,
        .super_bytes = FORMAT_SUPER_BYTES,
        .ring_start = ring_start,
        .ring_bytes = (journal_bytes - ring_start) / FORMAT_SECTOR * FORMAT_SECTOR,
        .generation = 1,
        .state = SUPER_STATE_CLEAN,
        .created_us = now_us,
        .updated_us = now_us,
        .next_image_id = 1,
    };
    memcpy(sb->uuid, uuid, FORMAT_UUID_BYTES);
}

static bool power_of_two(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* super_bytes is a power of two so that a reader who finds the first copy broken has only a few
 * places where to look for the second. */
static bool super_geometry_valid(const struct superblock *sb)
{
    return power_of_two(sb->sector_bytes) && sb->sector_bytes >= 512 &&
           sb->sector_bytes <= 65536 && power_of_two(sb->super_bytes) &&
           sb->super_bytes >= FORMAT_SUPER_MIN && sb->super_bytes <= FORMAT_SUPER_MAX &&
           sb->super_bytes >= sb->sector_bytes && sb->ring_start == 2 * sb->super_bytes &&
           sb->ring_bytes >= RING_MIN && sb->ring_bytes >= 8 * sb->sector_bytes &&
           sb->ring_bytes % sb->sector_bytes == 0 &&
           sb->ring_bytes <= FORMAT_JOURNAL_MAX - sb->ring_start;
}

static bool image_valid(const struct superblock *sb, const struct image_entry *image)
{
    bool kind_known =
        image->kind == IMAGE_FILE || image->kind == IMAGE_BLOCK || image->kind == IMAGE_REMOTE;
    size_t name_len = strnlen(image->name, FORMAT_NAME_BYTES);

    return kind_known && image->id >= 1 && image->id < sb->next_image_id &&
           !all_zero(image->uuid, FORMAT_UUID_BYTES) && (image->flags & ~IMAGE_FLAGS) == 0 &&
           image->mark_epoch <= sb->epoch && image->size >= 1 && image->size <= BYTES_MAX &&
           all_zero(image->name + name_len, sizeof(image->name) - name_len);
}

static bool images_valid(const struct superblock *sb)
{
    for (uint32_t i = 0; i < sb->image_count; i++) {
        const struct image_entry *a = &sb->images[i];

        if (!image_valid(sb, a))
            return false;
        for (uint32_t j = 0; j < i; j++) {
            const struct image_entry *b = &sb->images[j];

            if (a->id == b->id || memcmp(a->uuid, b->uuid, FORMAT_UUID_BYTES) == 0)
                return false;
        }
    }
    return true;
}

/* What the writer asserts and the reader checks; without the table of images. */
static bool super_valid(const struct superblock *sb)
{
    return super_geometry_valid(sb) && !all_zero(sb->uuid, FORMAT_UUID_BYTES) &&
           sb->generation >= 1 && (sb->state & ~SUPER_STATE_CLEAN) == 0 &&
           sb->tail.position % sb->sector_bytes == 0 && sb->tail.position <= BYTES_MAX &&
           sb->tail.lsn <= FORMAT_LSN_MAX && sb->tail.epoch <= sb->epoch &&
           sb->ring_written <= sb->ring_bytes &&
           (sb->staging_bytes == 0) == all_zero(sb->staging_boot, FORMAT_UUID_BYTES) &&
           (sb->staging_bytes != 0 || sb->staging_uid == 0) && sb->next_image_id >= 1 &&
           sb->image_count <= format_images_max(sb);
}

static void image_encode(const struct image_entry *image, uint8_t *out)
{
    struct disk_image d = {
        .id = htole32(image->id),
        .kind = htole32(image->kind),
        .flags = htole32(image->flags),
        .mark_epoch = htole32(image->mark_epoch),
        .size = htole64(image->size),
        .fsid = htole64(image->fsid),
        .inode = htole64(image->inode),
    };

    memcpy(d.uuid, image->uuid, sizeof(d.uuid));
    memcpy(d.name, image->name, sizeof(d.name));
    memcpy(out, &d, sizeof(d));
}

/* False: a byte that must be zero is not. */
static bool image_decode(const uint8_t *in, struct image_entry *image)
{
    struct disk_image d;

    memcpy(&d, in, sizeof(d));
    *image = (struct image_entry){
        .id = le32toh(d.id),
        .kind = le32toh(d.kind),
        .flags = le32toh(d.flags),
        .mark_epoch = le32toh(d.mark_epoch),
        .size = le64toh(d.size),
        .fsid = le64toh(d.fsid),
        .inode = le64toh(d.inode),
    };
    memcpy(image->uuid, d.uuid, sizeof(d.uuid));
    memcpy(image->name, d.name, sizeof(d.name));
    return all_zero(d.zero, sizeof(d.zero));
}

static uint32_t incompat_of_images(const struct superblock *sb)
{
    for (uint32_t i = 0; i < sb->image_count; i++) {
        if (sb->images[i].flags & IMAGE_FLAG_BYPASS)
            return FORMAT_INCOMPAT_BYPASS;
    }
    return 0;
}

/* Checksum of a copy whose checksum field is zero. */
static uint64_t super_sum(const struct superblock *sb, const uint8_t *bytes)
{
    size_t count = FORMAT_HEADER_BYTES + (size_t)sb->image_count * FORMAT_IMAGE_BYTES;

    return format_sum(format_seed(sb->uuid), bytes, count);
}

void format_super_encode(const struct superblock *sb, uint8_t *out)
{
    struct disk_super d = {
        .version = htole32(FORMAT_VERSION),
        .byte_order = htole32(BYTE_ORDER_MARK),
        .feature_compat = htole32(sb->feature_compat),
        .feature_ro = htole32(sb->feature_ro),
        .feature_incompat =
            htole32((sb->feature_incompat & ~FORMAT_INCOMPAT_BYPASS) | incompat_of_images(sb)),
        .sector_bytes = htole32(sb->sector_bytes),
        .super_bytes = htole32(sb->super_bytes),
        .state = htole32(sb->state),
        .ring_start = htole64(sb->ring_start),
        .ring_bytes = htole64(sb->ring_bytes),
        .generation = htole64(sb->generation),
        .epoch = htole32(sb->epoch),
        .image_count = htole32(sb->image_count),
        .next_image_id = htole32(sb->next_image_id),
        .tail_position = htole64(sb->tail.position),
        .tail_lsn = htole64(sb->tail.lsn),
        .tail_chain = htole64(sb->tail.chain),
        .tail_epoch = htole32(sb->tail.epoch),
        .staging_uid = htole32(sb->staging_uid),
        .ring_written = htole64(sb->ring_written),
        .staging_bytes = htole64(sb->staging_bytes),
        .created_us = htole64(sb->created_us),
        .updated_us = htole64(sb->updated_us),
    };

    assert(super_valid(sb) && images_valid(sb));
    memcpy(d.magic, FORMAT_SUPER_MAGIC, sizeof(d.magic));
    memcpy(d.uuid, sb->uuid, sizeof(d.uuid));
    memcpy(d.staging_boot, sb->staging_boot, sizeof(d.staging_boot));
    memset(out, 0, sb->super_bytes);
    for (uint32_t i = 0; i < sb->image_count; i++)
        image_encode(&sb->images[i], out + FORMAT_HEADER_BYTES + i * FORMAT_IMAGE_BYTES);
    memcpy(out, &d, sizeof(d));
    d.checksum = htole64(super_sum(sb, out));
    memcpy(out, &d, sizeof(d));
}

static void super_from_disk(const struct disk_super *d, struct superblock *sb)
{
    *sb = (struct superblock){
        .feature_compat = le32toh(d->feature_compat),
        .feature_ro = le32toh(d->feature_ro),
        .feature_incompat = le32toh(d->feature_incompat),
        .sector_bytes = le32toh(d->sector_bytes),
        .super_bytes = le32toh(d->super_bytes),
        .ring_start = le64toh(d->ring_start),
        .ring_bytes = le64toh(d->ring_bytes),
        .generation = le64toh(d->generation),
        .epoch = le32toh(d->epoch),
        .state = le32toh(d->state),
        .tail.position = le64toh(d->tail_position),
        .tail.lsn = le64toh(d->tail_lsn),
        .tail.chain = le64toh(d->tail_chain),
        .tail.epoch = le32toh(d->tail_epoch),
        .staging_uid = le32toh(d->staging_uid),
        .ring_written = le64toh(d->ring_written),
        .staging_bytes = le64toh(d->staging_bytes),
        .created_us = le64toh(d->created_us),
        .updated_us = le64toh(d->updated_us),
        .next_image_id = le32toh(d->next_image_id),
        .image_count = le32toh(d->image_count),
    };
    memcpy(sb->uuid, d->uuid, sizeof(sb->uuid));
    memcpy(sb->staging_boot, d->staging_boot, sizeof(sb->staging_boot));
}

/* Bytes that must be zero.  An unknown compatible feature may have put something there. */
static bool super_zeroes_valid(const struct disk_super *d, const struct superblock *sb)
{
    if ((sb->feature_compat & ~FORMAT_COMPAT_KNOWN) != 0 ||
        (sb->feature_ro & ~FORMAT_RO_KNOWN) != 0)
        return true;
    return d->zero32 == 0 && all_zero(d->zero, sizeof(d->zero));
}

static enum format_verdict super_sum_check(const struct superblock *sb, const uint8_t *in)
{
    size_t count = FORMAT_HEADER_BYTES + (size_t)sb->image_count * FORMAT_IMAGE_BYTES;
    struct disk_super *copy = malloc(count);
    uint64_t sum;
    enum format_verdict verdict;

    if (PLANTED(34)) { /* a torn copy is believed */
        free(copy);
        return FORMAT_OK;
    }
    if (copy == NULL)
        return FORMAT_NO_MEMORY;
    memcpy(copy, in, count);
    sum = le64toh(copy->checksum);
    copy->checksum = 0;
    verdict = super_sum(sb, (const uint8_t *)copy) == sum ? FORMAT_OK : FORMAT_BAD_SUM;
    free(copy);
    return verdict;
}

static enum format_verdict super_images_decode(const uint8_t *in, struct superblock *sb)
{
    if (sb->image_count > 0) {
        sb->images = calloc(sb->image_count, sizeof(*sb->images));
        if (sb->images == NULL)
            return FORMAT_NO_MEMORY;
    }
    for (uint32_t i = 0; i < sb->image_count; i++) {
        if (!image_decode(in + FORMAT_HEADER_BYTES + i * FORMAT_IMAGE_BYTES, &sb->images[i])) {
            format_super_free(sb);
            return FORMAT_BAD_FIELD;
        }
    }
    if (!images_valid(sb) ||
        (sb->feature_incompat & FORMAT_INCOMPAT_BYPASS) != incompat_of_images(sb)) {
        format_super_free(sb);
        return FORMAT_BAD_FIELD;
    }
    return FORMAT_OK;
}

enum format_verdict format_super_decode(const uint8_t *in, size_t in_bytes, size_t *need_bytes,
                                        struct superblock *sb)
{
    struct disk_super d;
    enum format_verdict verdict;

    assert(in_bytes >= FORMAT_HEADER_BYTES);
    if (need_bytes != NULL)
        *need_bytes = 0;
    memcpy(&d, in, sizeof(d));
    if (memcmp(d.magic, FORMAT_SUPER_MAGIC, sizeof(d.magic)) != 0)
        return FORMAT_NO_MAGIC;
    if (le32toh(d.byte_order) == BYTE_ORDER_OTHER)
        return FORMAT_OTHER_ORDER;
    if (le32toh(d.byte_order) != BYTE_ORDER_MARK)
        return FORMAT_BAD_SUM;
    if (le32toh(d.version) > FORMAT_VERSION)
        return FORMAT_NEW_VERSION;

    /* Nothing is proven yet: these two are only used within bounds, to find what the checksum
     * covers. */
    super_from_disk(&d, sb);
    if (sb->super_bytes < FORMAT_SUPER_MIN || sb->super_bytes > FORMAT_SUPER_MAX ||
        sb->image_count > format_images_max(sb))
        return FORMAT_BAD_FIELD;
    if (sb->super_bytes > in_bytes) {
        if (need_bytes == NULL)
            return FORMAT_BAD_FIELD;
        *need_bytes = sb->super_bytes;
        return FORMAT_BAD_SUM;
    }
    verdict = super_sum_check(sb, in);
    if (verdict != FORMAT_OK)
        return verdict;
    if ((sb->feature_incompat & ~FORMAT_INCOMPAT_KNOWN) != 0)
        return FORMAT_NEW_VERSION;
    if (le32toh(d.version) != FORMAT_VERSION || !super_zeroes_valid(&d, sb) || !super_valid(sb))
        return FORMAT_BAD_FIELD;
    return super_images_decode(in, sb);
}

void format_super_free(struct superblock *sb)
{
    free(sb->images);
    sb->images = NULL;
}

const struct superblock *format_super_choose(const struct superblock *a,
                                             const struct superblock *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    if (PLANTED(33)) /* the older one */
        return b->generation > a->generation ? a : b;
    return b->generation > a->generation ? b : a;
}

/* ---- words ---- */

const char *format_verdict_words(enum format_verdict verdict)
{
    switch (verdict) {
    case FORMAT_OK:
        return "valid";
    case FORMAT_NO_MAGIC:
        return "not a journal";
    case FORMAT_BAD_SUM:
        return "checksum wrong";
    case FORMAT_BAD_FIELD:
        return "field out of range";
    case FORMAT_OTHER_ORDER:
        return "written in the other byte order";
    case FORMAT_NEW_VERSION:
        return "written by a newer version";
    case FORMAT_NO_MEMORY:
        return "out of memory";
    }
    return "unknown";
}

void format_uuid_text(const uint8_t uuid[FORMAT_UUID_BYTES], char out[37])
{
    static const char digits[] = "0123456789abcdef";
    char *p = out;

    for (size_t i = 0; i < FORMAT_UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = digits[uuid[i] >> 4];
        *p++ = digits[uuid[i] & 15];
    }
    *p = '\0';
}
