/* format: what is encoded is decoded again, the bytes lie where format.c says, and whatever is
 * wrong is refused with the right verdict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <xxhash.h>

#include "format.h"

static const uint8_t uuid[FORMAT_UUID_BYTES] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                                0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
#define SEED UINT64_C(0xefcdab8967452301)
#define RING (UINT64_C(1) << 20)

static struct record sample_write(void)
{
    return (struct record){
        .kind = RECORD_WRITE,
        .flags = RECORD_FLAG_FUA,
        .epoch = 7,
        .image_id = 1,
        .lsn = 1000,
        .durable_lsn = 999,
        .position = 3 * RING + 4096,
        .chain = 0x1122334455667788,
        .offset = 12345,
        .length = 4096,
        .time_us = 1700000000000000,
        .payload_sum = 0x99aabbccddeeff00,
        .payload_bytes = 4096,
        .span_bytes = 4224,
    };
}

static struct record sample_epoch(void)
{
    return (struct record){
        .kind = RECORD_EPOCH,
        .epoch = 8,
        .lsn = 2000,
        .durable_lsn = 1000,
        .position = 4096,
        .cut_lsn = 1000,
        .span_bytes = 128,
    };
}

static struct record sample_pad(void)
{
    return (struct record){
        .kind = RECORD_PAD, .epoch = 8, .lsn = 2001, .position = 128, .span_bytes = 3968};
}

static struct record sample_trim(void)
{
    return (struct record){
        .kind = RECORD_TRIM,
        .epoch = 8,
        .image_id = 3,
        .lsn = 2002,
        .offset = 1,
        .length = INT64_MAX - 1,
        .span_bytes = 128,
    };
}

static void assert_same_record(const struct record *a, const struct record *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->image_id, b->image_id);
    assert_int_equal(a->lsn, b->lsn);
    assert_int_equal(a->durable_lsn, b->durable_lsn);
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->chain, b->chain);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->length, b->length);
    assert_int_equal(a->cut_lsn, b->cut_lsn);
    assert_int_equal(a->time_us, b->time_us);
    assert_int_equal(a->payload_sum, b->payload_sum);
    assert_int_equal(a->payload_bytes, b->payload_bytes);
    assert_int_equal(a->span_bytes, b->span_bytes);
    assert_int_equal(a->header_sum, b->header_sum);
}

static void seed_is_start_of_uuid(void **state)
{
    (void)state;
    assert_int_equal(format_seed(uuid), SEED);
    assert_int_equal(format_sum(SEED, "abc", 3), XXH3_64bits_withSeed("abc", 3, SEED));
}

static void sizes(void **state)
{
    (void)state;
    assert_int_equal(format_span(0), 128);
    assert_int_equal(format_span(1), 256);
    assert_int_equal(format_span(128), 256);
    assert_int_equal(format_span(129), 384);
    assert_int_equal(format_span(FORMAT_RECORD_MAX), FORMAT_RECORD_MAX + 128);

    assert_int_equal(format_atomic_max(32768), 4096);
    assert_int_equal(format_atomic_max(65535), 4096);
    assert_int_equal(format_atomic_max(65536), 8192);
    assert_int_equal(format_atomic_max(UINT64_C(512) << 20), 64 << 20);
    assert_int_equal(format_atomic_max(FORMAT_JOURNAL_MAX), FORMAT_RECORD_MAX);
}

static void records_come_back(void **state)
{
    struct record samples[] = {sample_write(), sample_epoch(), sample_pad(), sample_trim()};

    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
        uint8_t bytes[FORMAT_RECORD_BYTES];
        struct record back;

        format_record_encode(SEED, &samples[i], bytes);
        assert_int_equal(format_record_decode(SEED, bytes, samples[i].position, RING, &back),
                         FORMAT_OK);
        assert_same_record(&samples[i], &back);
    }
}

/* The layout is a promise to every later version and to every other reader. */
static void record_bytes_are_fixed(void **state)
{
    static const char want[121] = "JREC\x01\x01\x01\0"   /* magic, kind, version, flags */
                                  "\x07\0\0\0\x01\0\0\0" /* epoch, image_id */
                                  "\xe8\x03\0\0\0\0\0\0" /* lsn */
                                  "\xe7\x03\0\0\0\0\0\0" /* durable_lsn */
                                  "\0\x10\x30\0\0\0\0\0" /* position */
                                  "\x88\x77\x66\x55\x44\x33\x22\x11"  /* chain */
                                  "\x39\x30\0\0\0\0\0\0"              /* offset */
                                  "\0\x10\0\0\0\0\0\0"                /* length */
                                  "\0\0\0\0\0\0\0\0"                  /* cut_lsn */
                                  "\0\x40\x1e\x18\x24\x0a\x06\0"      /* time_us */
                                  "\0\xff\xee\xdd\xcc\xbb\xaa\x99"    /* payload_sum */
                                  "\0\x10\0\0\0\0\0\0"                /* payload_bytes, zero */
                                  "\x80\x10\0\0\0\0\0\0"              /* span_bytes */
                                  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"; /* zero */
    struct record r = sample_write();
    uint8_t bytes[FORMAT_RECORD_BYTES];
    uint64_t sum = XXH3_64bits_withSeed(want, 120, SEED);

    (void)state;
    format_record_encode(SEED, &r, bytes);
    assert_memory_equal(bytes, want, 120);
    for (int i = 0; i < 8; i++)
        assert_int_equal(bytes[120 + i], (sum >> (8 * i)) & 0xff);
    assert_int_equal(r.header_sum, sum);
}

/* No bit of a header can change unseen. */
static void every_bit_of_a_record_counts(void **state)
{
    struct record r = sample_write(), back;
    uint8_t bytes[FORMAT_RECORD_BYTES];

    (void)state;
    format_record_encode(SEED, &r, bytes);
    for (unsigned bit = 0; bit < 8 * FORMAT_RECORD_BYTES; bit++) {
        enum format_verdict want = bit < 32 ? FORMAT_NO_MAGIC : FORMAT_BAD_SUM;

        bytes[bit / 8] ^= 1 << bit % 8;
        assert_int_equal(format_record_decode(SEED, bytes, r.position, RING, &back), want);
        bytes[bit / 8] ^= 1 << bit % 8;
    }
    assert_int_equal(format_record_decode(SEED + 1, bytes, r.position, RING, &back),
                     FORMAT_BAD_SUM);
    assert_int_equal(format_record_decode(SEED, bytes, r.position + RING, RING, &back),
                     FORMAT_BAD_FIELD);
}

/* Puts `count` bytes of value into a valid header, makes the checksum right again, decodes. */
static enum format_verdict record_with(struct record r, size_t at, uint64_t value, size_t count)
{
    uint8_t bytes[FORMAT_RECORD_BYTES];
    uint64_t sum;
    struct record back;

    format_record_encode(SEED, &r, bytes);
    memcpy(bytes + at, &value, count);
    sum = format_sum(SEED, bytes, 120);
    memcpy(bytes + 120, &sum, sizeof(sum));
    return format_record_decode(SEED, bytes, r.position, RING, &back);
}

static void wrong_fields_of_records(void **state)
{
    struct record w = sample_write(), t = sample_trim(), e = sample_epoch(), p = sample_pad();

    (void)state;
    /* The tool itself changes nothing. */
    assert_int_equal(record_with(w, 4, RECORD_WRITE, 1), FORMAT_OK);

    assert_int_equal(record_with(p, 4, 0, 1), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 4, RECORD_REVOKE, 1), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(t, 4, RECORD_REVOKE, 1), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 4, 255, 1), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 4, RECORD_TRIM, 1), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 4, RECORD_PAD, 1), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(t, 4, RECORD_ZERO, 1), FORMAT_OK);
    assert_int_equal(record_with(w, 5, 0, 1), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 5, 2, 1), FORMAT_NEW_VERSION);
    assert_int_equal(record_with(w, 6, 2, 2), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 6, 1, 2), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 8, 0, 4), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 12, 0, 4), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 12, 1, 4), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(e, 12, 1, 4), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 16, 0, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 16, 999, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 16, FORMAT_LSN_MAX, 8), FORMAT_OK);
    assert_int_equal(record_with(w, 16, FORMAT_LSN_MAX + 1, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 24, 1000, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 32, 4096, 8), FORMAT_BAD_FIELD);

    assert_int_equal(record_with(w, 48, INT64_MAX - 4096, 8), FORMAT_OK);
    assert_int_equal(record_with(w, 48, INT64_MAX - 4095, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 48, UINT64_MAX, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 56, 4095, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(t, 56, INT64_MAX, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(t, 56, UINT64_MAX, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(t, 56, 0, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 56, 1, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 48, 1, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 64, 1, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 64, 1, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(e, 64, 1999, 8), FORMAT_OK);
    assert_int_equal(record_with(e, 64, 2000, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(t, 80, 1, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 88, 4095, 4), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(t, 88, 1, 4), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 92, 1, 4), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 104, 1, 1), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(w, 119, 1, 1), FORMAT_BAD_FIELD);
}

static void wrong_spans_of_records(void **state)
{
    struct record w = sample_write(), p = sample_pad();
    uint8_t bytes[FORMAT_RECORD_BYTES];
    struct record back;

    (void)state;
    assert_int_equal(record_with(w, 96, 4096, 8), FORMAT_BAD_FIELD); /* payload does not fit */
    assert_int_equal(record_with(w, 96, 4225, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 96, 0, 8), FORMAT_BAD_FIELD);
    assert_int_equal(record_with(p, 96, UINT64_MAX - 127, 8), FORMAT_BAD_FIELD);
    /* A gap is allowed, up to the end of the ring and not across it. */
    assert_int_equal(record_with(w, 96, RING - 4096, 8), FORMAT_OK);
    assert_int_equal(record_with(w, 96, RING - 4096 + 128, 8), FORMAT_BAD_FIELD);

    /* Off the grid of 128 bytes. */
    p.position = 128;
    format_record_encode(SEED, &p, bytes);
    memset(bytes + 32, 0, 8);
    bytes[32] = 64;
    uint64_t sum = format_sum(SEED, bytes, 120);
    memcpy(bytes + 120, &sum, sizeof(sum));
    assert_int_equal(format_record_decode(SEED, bytes, 64, RING, &back), FORMAT_BAD_FIELD);
}

/* ---- superblocks ---- */

static struct image_entry sample_images[2];

static struct superblock sample_super(void)
{
    struct superblock sb;

    format_super_init(&sb, uuid, FORMAT_JOURNAL_MIN, 1700000000000000);
    for (int i = 0; i < 2; i++) {
        sample_images[i] = (struct image_entry){
            .uuid = {0x55, i},
            .id = i + 1,
            .kind = i == 0 ? IMAGE_FILE : IMAGE_BLOCK,
            .flags = IMAGE_FLAG_PENDING | IMAGE_FLAG_MARKED | IMAGE_FLAG_BYPASS,
            .size = i == 0 ? 1 : INT64_MAX,
            .fsid = 0x1234567890,
            .inode = 42 + i,
            .mark_epoch = i == 0 ? 9 : 0,
        };
        memset(sample_images[i].name, 'n', i == 0 ? 5 : FORMAT_NAME_BYTES);
    }
    sb.images = sample_images;
    sb.image_count = 2;
    sb.next_image_id = 3;
    sb.generation = 0x100000002;
    sb.epoch = 9;
    sb.state = 0;
    sb.tail =
        (struct ring_mark){.position = RING * 4096, .lsn = 1u << 20, .chain = 77, .epoch = 9};
    sb.ring_written = 4096;
    sb.staging_bytes = 1 << 20;
    sb.staging_boot[15] = 1;
    sb.staging_uid = 65534;
    sb.updated_us = 1800000000000000;
    sb.feature_compat = 8;
    sb.feature_ro = 16;
    return sb;
}

static void init_describes_a_new_journal(void **state)
{
    struct superblock sb;
    uint8_t *bytes = malloc(FORMAT_SUPER_BYTES);
    struct superblock back;

    (void)state;
    format_super_init(&sb, uuid, FORMAT_JOURNAL_MIN + 4095, 5);
    assert_int_equal(sb.ring_start, 131072);
    assert_int_equal(sb.ring_bytes, FORMAT_JOURNAL_MIN - 131072);
    assert_int_equal(sb.generation, 1);
    assert_int_equal(sb.state, SUPER_STATE_CLEAN);
    assert_int_equal(sb.epoch, 0);
    assert_int_equal(sb.tail.lsn, 0);
    assert_int_equal(sb.image_count, 0);
    assert_int_equal(sb.created_us, 5);
    assert_int_equal(format_images_max(&sb), 240);
    format_super_encode(&sb, bytes);
    assert_int_equal(format_super_decode(bytes, FORMAT_SUPER_BYTES, NULL, &back), FORMAT_OK);
    assert_null(back.images);
    free(bytes);
}

static void superblocks_come_back(void **state)
{
    struct superblock sb = sample_super(), back;
    uint8_t *bytes = malloc(FORMAT_SUPER_BYTES);

    (void)state;
    memset(bytes, 0xee, FORMAT_SUPER_BYTES);
    format_super_encode(&sb, bytes);
    assert_int_equal(bytes[FORMAT_SUPER_BYTES - 1], 0); /* all of it is set */
    assert_int_equal(format_super_decode(bytes, FORMAT_SUPER_BYTES, NULL, &back), FORMAT_OK);
    assert_memory_equal(back.uuid, uuid, sizeof(uuid));
    assert_int_equal(back.sector_bytes, sb.sector_bytes);
    assert_int_equal(back.super_bytes, sb.super_bytes);
    assert_int_equal(back.ring_start, sb.ring_start);
    assert_int_equal(back.ring_bytes, sb.ring_bytes);
    assert_int_equal(back.generation, sb.generation);
    assert_int_equal(back.epoch, sb.epoch);
    assert_int_equal(back.state, sb.state);
    assert_int_equal(back.tail.position, sb.tail.position);
    assert_int_equal(back.tail.lsn, sb.tail.lsn);
    assert_int_equal(back.tail.chain, sb.tail.chain);
    assert_int_equal(back.tail.epoch, sb.tail.epoch);
    assert_int_equal(back.ring_written, sb.ring_written);
    assert_int_equal(back.staging_bytes, sb.staging_bytes);
    assert_memory_equal(back.staging_boot, sb.staging_boot, sizeof(sb.staging_boot));
    assert_int_equal(back.staging_uid, sb.staging_uid);
    assert_int_equal(back.created_us, sb.created_us);
    assert_int_equal(back.updated_us, sb.updated_us);
    assert_int_equal(back.next_image_id, sb.next_image_id);
    assert_int_equal(back.image_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(back.images[i].uuid, sb.images[i].uuid, FORMAT_UUID_BYTES);
        assert_int_equal(back.images[i].id, sb.images[i].id);
        assert_int_equal(back.images[i].kind, sb.images[i].kind);
        assert_int_equal(back.images[i].flags, sb.images[i].flags);
        assert_int_equal(back.images[i].size, sb.images[i].size);
        assert_int_equal(back.images[i].fsid, sb.images[i].fsid);
        assert_int_equal(back.images[i].inode, sb.images[i].inode);
        assert_string_equal(back.images[i].name, sb.images[i].name);
    }
    format_super_free(&back);
    free(bytes);
}

static uint64_t bytes_at(const uint8_t *bytes, size_t at, size_t count)
{
    uint64_t value = 0;

    for (size_t i = count; i-- > 0;)
        value = value << 8 | bytes[at + i];
    return value;
}

static void superblock_bytes_are_fixed(void **state)
{
    struct superblock sb = sample_super();
    uint8_t *bytes = malloc(FORMAT_SUPER_BYTES);
    const uint8_t *second = bytes + 4096 + 256;

    (void)state;
    format_super_encode(&sb, bytes);
    assert_memory_equal(bytes, "NBDKJRNL\1\0\0\0\4\3\2\1", 16);
    assert_memory_equal(bytes + 16, uuid, 16);
    assert_int_equal(bytes_at(bytes, 32, 4), sb.feature_compat);
    assert_int_equal(bytes_at(bytes, 36, 4), sb.feature_ro);
    assert_int_equal(bytes_at(bytes, 40, 4), FORMAT_INCOMPAT_BYPASS);
    assert_int_equal(bytes_at(bytes, 44, 4), sb.sector_bytes);
    assert_int_equal(bytes_at(bytes, 48, 4), sb.super_bytes);
    assert_int_equal(bytes_at(bytes, 52, 4), sb.state);
    assert_int_equal(bytes_at(bytes, 56, 8), sb.ring_start);
    assert_int_equal(bytes_at(bytes, 64, 8), sb.ring_bytes);
    assert_int_equal(bytes_at(bytes, 72, 8), sb.generation);
    assert_int_equal(bytes_at(bytes, 80, 4), sb.epoch);
    assert_int_equal(bytes_at(bytes, 84, 4), sb.image_count);
    assert_int_equal(bytes_at(bytes, 88, 4), sb.next_image_id);
    assert_int_equal(bytes_at(bytes, 96, 8), sb.tail.position);
    assert_int_equal(bytes_at(bytes, 104, 8), sb.tail.lsn);
    assert_int_equal(bytes_at(bytes, 112, 8), sb.tail.chain);
    assert_int_equal(bytes_at(bytes, 120, 4), sb.tail.epoch);
    assert_int_equal(bytes_at(bytes, 124, 4), sb.staging_uid);
    assert_int_equal(bytes_at(bytes, 128, 8), sb.ring_written);
    assert_int_equal(bytes_at(bytes, 136, 8), sb.staging_bytes);
    assert_memory_equal(bytes + 144, sb.staging_boot, 16);
    assert_int_equal(bytes_at(bytes, 160, 8), sb.created_us);
    assert_int_equal(bytes_at(bytes, 168, 8), sb.updated_us);

    assert_memory_equal(second, sb.images[1].uuid, 16);
    assert_int_equal(bytes_at(second, 16, 4), sb.images[1].id);
    assert_int_equal(bytes_at(second, 20, 4), sb.images[1].kind);
    assert_int_equal(bytes_at(second, 24, 4), sb.images[1].flags);
    assert_int_equal(bytes_at(second - 256, 28, 4), sb.images[0].mark_epoch);
    assert_int_equal(bytes_at(second, 32, 8), sb.images[1].size);
    assert_int_equal(bytes_at(second, 40, 8), sb.images[1].fsid);
    assert_int_equal(bytes_at(second, 48, 8), sb.images[1].inode);
    assert_memory_equal(second + 96, sb.images[1].name, FORMAT_NAME_BYTES);
    free(bytes);
}

/* Who does not know the flag of an image must not take the newest copy for a damaged one. */
static void bypass_is_an_incompatible_feature(void **state)
{
    struct superblock sb = sample_super(), back;
    uint8_t *bytes = malloc(FORMAT_SUPER_BYTES);

    (void)state;
    sb.images[0].flags &= ~IMAGE_FLAG_BYPASS;
    format_super_encode(&sb, bytes);
    assert_int_equal(bytes_at(bytes, 40, 4), FORMAT_INCOMPAT_BYPASS);
    assert_int_equal(format_super_decode(bytes, FORMAT_SUPER_BYTES, NULL, &back), FORMAT_OK);
    assert_int_equal(back.feature_incompat, FORMAT_INCOMPAT_BYPASS);

    /* It goes with the last flag. */
    back.images[1].flags &= ~IMAGE_FLAG_BYPASS;
    format_super_encode(&back, bytes);
    assert_int_equal(bytes_at(bytes, 40, 4), 0);
    back.image_count = 0;
    format_super_encode(&back, bytes);
    assert_int_equal(bytes_at(bytes, 40, 4), 0);
    format_super_free(&back);
    free(bytes);
}

/* The checksum covers the header and the used part of the table, and nothing else. */
static void every_byte_of_a_superblock_counts(void **state)
{
    struct superblock sb = sample_super(), back;
    uint8_t *bytes = malloc(FORMAT_SUPER_BYTES);
    size_t covered = FORMAT_HEADER_BYTES + 2 * FORMAT_IMAGE_BYTES;

    (void)state;
    format_super_encode(&sb, bytes);
    for (size_t i = 0; i < covered + 512; i++) {
        enum format_verdict verdict;

        bytes[i] ^= 0x10;
        verdict = format_super_decode(bytes, FORMAT_SUPER_BYTES, NULL, &back);
        bytes[i] ^= 0x10;
        if (i >= covered) {
            assert_int_equal(verdict, FORMAT_OK);
            format_super_free(&back);
        } else {
            assert_int_not_equal(verdict, FORMAT_OK);
        }
    }
    free(bytes);
}

/* Changes a copy and makes its checksum right again: header as format.c describes it. */
static enum format_verdict super_with(size_t at, uint64_t value, size_t count)
{
    struct superblock sb = sample_super(), back;
    uint8_t *bytes = malloc(FORMAT_SUPER_BYTES);
    uint32_t image_count;
    uint64_t sum, zero = 0;
    enum format_verdict verdict;

    sb.feature_compat = sb.feature_ro = 0; /* unknown ones allow anything in the zeroes */
    format_super_encode(&sb, bytes);
    memcpy(bytes + at, &value, count);
    memcpy(&image_count, bytes + 84, sizeof(image_count));
    if (image_count > 240)
        image_count = 240;
    memcpy(bytes + 4088, &zero, sizeof(zero));
    sum = format_sum(format_seed(bytes + 16), bytes, 4096 + image_count * 256);
    memcpy(bytes + 4088, &sum, sizeof(sum));
    verdict = format_super_decode(bytes, FORMAT_SUPER_BYTES, NULL, &back);
    if (verdict == FORMAT_OK)
        format_super_free(&back);
    free(bytes);
    return verdict;
}

static void wrong_fields_of_superblocks(void **state)
{
    (void)state;
    assert_int_equal(super_with(48, 65536, 4), FORMAT_OK); /* the tool changes nothing */

    assert_int_equal(super_with(0, 0, 1), FORMAT_NO_MAGIC);
    assert_int_equal(super_with(8, 0, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(8, 2, 4), FORMAT_NEW_VERSION);
    assert_int_equal(super_with(8, 255, 4), FORMAT_NEW_VERSION);
    assert_int_equal(super_with(12, 0x04030201, 4), FORMAT_OTHER_ORDER);
    assert_int_equal(super_with(12, 0, 4), FORMAT_BAD_SUM);
    assert_int_equal(super_with(32, 0x80000000, 4), FORMAT_OK); /* feature_compat */
    assert_int_equal(super_with(36, 1, 4), FORMAT_OK);          /* feature_ro */
    assert_int_equal(super_with(40, 3, 4), FORMAT_NEW_VERSION); /* feature_incompat */
    assert_int_equal(super_with(40, 0, 4), FORMAT_BAD_FIELD);   /* there is a bypass flag */
    assert_int_equal(super_with(40, 0x80000000, 4), FORMAT_NEW_VERSION);
    assert_int_equal(super_with(44, 0, 4), FORMAT_BAD_FIELD); /* sector_bytes */
    assert_int_equal(super_with(44, 256, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(44, 512, 4), FORMAT_OK);
    assert_int_equal(super_with(44, 4097, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(44, 131072, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(48, 0, 4), FORMAT_BAD_FIELD);     /* super_bytes */
    assert_int_equal(super_with(48, 32768, 4), FORMAT_BAD_FIELD); /* ring_start differs */
    assert_int_equal(super_with(48, 0xffffffff, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(52, 2, 4), FORMAT_BAD_FIELD);     /* state */
    assert_int_equal(super_with(56, 65536, 8), FORMAT_BAD_FIELD); /* ring_start */
    assert_int_equal(super_with(64, 0, 8), FORMAT_BAD_FIELD);     /* ring_bytes */
    assert_int_equal(super_with(64, 4096, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(64, 32768, 8), FORMAT_OK);
    assert_int_equal(super_with(64, 1000000, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(64, UINT64_MAX - 4095, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(64, FORMAT_JOURNAL_MAX, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(64, FORMAT_JOURNAL_MAX - 131072, 8), FORMAT_OK);
    assert_int_equal(super_with(72, 0, 8), FORMAT_BAD_FIELD); /* generation */
    assert_int_equal(super_with(80, 8, 4), FORMAT_BAD_FIELD); /* epoch below tail's */
    assert_int_equal(super_with(84, 3, 4), FORMAT_BAD_FIELD); /* image_count */
    assert_int_equal(super_with(84, 241, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(84, 0xffffffff, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(88, 2, 4), FORMAT_BAD_FIELD); /* next_image_id */
    assert_int_equal(super_with(92, 1, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(96, 4097, 8), FORMAT_BAD_FIELD); /* tail.position */
    assert_int_equal(super_with(96, UINT64_MAX - 4095, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(104, FORMAT_LSN_MAX + 1, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(120, 10, 4), FORMAT_BAD_FIELD); /* tail.epoch */
    assert_int_equal(super_with(124, 1, 4), FORMAT_OK);         /* staging_uid */
    assert_int_equal(super_with(128, FORMAT_JOURNAL_MIN, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(136, 0, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(159, 0, 1), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(176, 1, 1), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(4087, 1, 1), FORMAT_BAD_FIELD);
}

static void wrong_fields_of_images(void **state)
{
    size_t first = 4096, second = 4096 + 256;

    (void)state;
    assert_int_equal(super_with(second, 0x55, 2), FORMAT_BAD_FIELD);  /* same uuid */
    assert_int_equal(super_with(first + 16, 0, 4), FORMAT_BAD_FIELD); /* id */
    assert_int_equal(super_with(first + 16, 2, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(first + 16, 3, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(first + 20, 0, 4), FORMAT_BAD_FIELD); /* kind */
    assert_int_equal(super_with(first + 20, 4, 4), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(first + 24, 8, 4), FORMAT_BAD_FIELD);  /* flags */
    assert_int_equal(super_with(first + 28, 10, 4), FORMAT_BAD_FIELD); /* mark_epoch */
    assert_int_equal(super_with(first + 32, 0, 8), FORMAT_BAD_FIELD);  /* size */
    assert_int_equal(super_with(first + 32, (uint64_t)INT64_MAX + 1, 8), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(first + 56, 1, 1), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(first + 95, 1, 1), FORMAT_BAD_FIELD);
    assert_int_equal(super_with(first + 96 + 7, 'x', 1), FORMAT_BAD_FIELD); /* behind a NUL */
}

/* Copies of other sizes: the header says how much must be read. */
static void superblock_needs_more_bytes(void **state)
{
    struct superblock sb = sample_super(), back;
    uint8_t *bytes = malloc(FORMAT_SUPER_MAX);
    size_t need = 1;

    (void)state;
    sb.super_bytes = FORMAT_SUPER_MAX;
    sb.ring_start = 2 * FORMAT_SUPER_MAX;
    format_super_encode(&sb, bytes);
    assert_int_equal(format_super_decode(bytes, FORMAT_SUPER_BYTES, &need, &back),
                     FORMAT_BAD_SUM);
    assert_int_equal(need, FORMAT_SUPER_MAX);
    assert_int_equal(format_super_decode(bytes, FORMAT_SUPER_BYTES, NULL, &back),
                     FORMAT_BAD_FIELD);
    assert_int_equal(format_super_decode(bytes, need, &need, &back), FORMAT_OK);
    assert_int_equal(need, 0);
    assert_int_equal(format_images_max(&back), 4080);
    format_super_free(&back);
    free(bytes);
}

static void newer_generation_counts(void **state)
{
    struct superblock a = {.generation = 5}, b = {.generation = 6};

    (void)state;
    assert_ptr_equal(format_super_choose(&a, &b), &b);
    assert_ptr_equal(format_super_choose(&b, &a), &b);
    assert_ptr_equal(format_super_choose(&a, NULL), &a);
    assert_ptr_equal(format_super_choose(NULL, &b), &b);
    assert_null(format_super_choose(NULL, NULL));
}

static void uuid_as_text(void **state)
{
    char text[37];

    (void)state;
    format_uuid_text(uuid, text);
    assert_string_equal(text, "01234567-89ab-cdef-fedc-ba9876543210");
}

static void every_verdict_has_words(void **state)
{
    (void)state;
    for (int v = FORMAT_OK; v <= FORMAT_NO_MEMORY; v++)
        assert_string_not_equal(format_verdict_words(v), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seed_is_start_of_uuid),
        cmocka_unit_test(sizes),
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(record_bytes_are_fixed),
        cmocka_unit_test(every_bit_of_a_record_counts),
        cmocka_unit_test(wrong_fields_of_records),
        cmocka_unit_test(wrong_spans_of_records),
        cmocka_unit_test(init_describes_a_new_journal),
        cmocka_unit_test(superblocks_come_back),
        cmocka_unit_test(superblock_bytes_are_fixed),
        cmocka_unit_test(bypass_is_an_incompatible_feature),
        cmocka_unit_test(every_byte_of_a_superblock_counts),
        cmocka_unit_test(wrong_fields_of_superblocks),
        cmocka_unit_test(wrong_fields_of_images),
        cmocka_unit_test(superblock_needs_more_bytes),
        cmocka_unit_test(newer_generation_counts),
        cmocka_unit_test(uuid_as_text),
        cmocka_unit_test(every_verdict_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
