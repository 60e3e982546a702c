/* fuzz-super: any bytes as a superblock.
 *
 * Random bytes never pass the checksum, and with a right checksum they hardly ever have a
 * geometry that fits.  So, depending on the first byte, the input is a superblock as it is, or
 * a list of changes to a valid one, after which the checksum is made right again.
 *
 * What is accepted must come out the same when it is encoded again (the encoder asserts all
 * that the format promises), as far as the checksum covers it.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IMAGES 4
#define CHANGE_BYTES 4

static void check(const uint8_t *bytes, size_t count)
{
    size_t need, covered;
    struct superblock sb;
    enum format_verdict verdict = format_super_decode(bytes, count, &need, &sb);
    uint8_t *again;

    assert(need == 0 || (need > count && need <= FORMAT_SUPER_MAX && verdict != FORMAT_OK));
    if (verdict != FORMAT_OK)
        return;
    assert(sb.super_bytes <= count);
    assert(sb.image_count <= format_images_max(&sb));
    assert((sb.images == NULL) == (sb.image_count == 0));
    for (uint32_t i = 0; i < sb.image_count; i++)
        assert(sb.images[i].name[FORMAT_NAME_BYTES] == '\0');
    again = malloc(sb.super_bytes);
    format_super_encode(&sb, again);
    covered = FORMAT_HEADER_BYTES + sb.image_count * FORMAT_IMAGE_BYTES;
    /* Unknown features may have put something where we write zeroes. */
    if (sb.feature_compat == 0 && sb.feature_ro == 0)
        assert(memcmp(again, bytes, covered) == 0);
    free(again);
    format_super_free(&sb);
}

static void make_valid(uint8_t *bytes)
{
    static const uint8_t uuid[FORMAT_UUID_BYTES] = {1, 2, 3};
    struct image_entry images[IMAGES];
    struct superblock sb;

    format_super_init(&sb, uuid, FORMAT_JOURNAL_MIN, 5);
    sb.super_bytes = FORMAT_SUPER_MIN;
    sb.ring_start = 2 * FORMAT_SUPER_MIN;
    sb.epoch = 2;
    sb.tail = (struct ring_mark){.position = 65536, .lsn = 7, .chain = 8, .epoch = 2};
    sb.next_image_id = IMAGES + 1;
    sb.image_count = IMAGES;
    sb.images = images;
    for (int i = 0; i < IMAGES; i++)
        images[i] = (struct image_entry){
            .uuid = {i + 1}, .id = i + 1, .kind = IMAGE_FILE, .size = 100, .name = "/x"};
    format_super_encode(&sb, bytes);
}

/* As much as it asks for, if that much is there. */
static void make_sum_right(uint8_t *bytes)
{
    uint32_t image_count;
    uint64_t sum = 0;

    memcpy(&image_count, bytes + 84, sizeof(image_count));
    if (image_count > (FORMAT_SUPER_MIN - FORMAT_HEADER_BYTES) / FORMAT_IMAGE_BYTES)
        return;
    memcpy(bytes + 4088, &sum, sizeof(sum));
    sum = format_sum(format_seed(bytes + 16), bytes,
                     FORMAT_HEADER_BYTES + (size_t)image_count * FORMAT_IMAGE_BYTES);
    memcpy(bytes + 4088, &sum, sizeof(sum));
}

/* A change: where (12 bits are enough for the fields of the header, or for the table), which
 * bit or byte to change, and how. */
static void change(uint8_t *bytes, const uint8_t c[CHANGE_BYTES])
{
    size_t at = c[0] & 1 ? (size_t)(c[0] >> 1) * 2 + (c[1] & 1)
                         : FORMAT_HEADER_BYTES + ((c[0] >> 1) | (c[1] & 15) << 7);

    if (at >= FORMAT_SUPER_MIN)
        return;
    if (c[2] & 1)
        bytes[at] ^= 1 << (c[2] >> 1) % 8;
    else
        bytes[at] = c[3];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Exactly as long as a copy: the sanitizer sees a read beyond. */
    uint8_t *bytes;

    if (size < 1)
        return 0;
    if (data[0] % 8 == 0) {
        size_t count = size - 1 < FORMAT_HEADER_BYTES ? FORMAT_HEADER_BYTES : size - 1;

        bytes = calloc(1, count);
        memcpy(bytes, data + 1, size - 1);
        check(bytes, count);
    } else {
        bytes = malloc(FORMAT_SUPER_MIN);
        make_valid(bytes);
        for (size_t at = 1; at + CHANGE_BYTES <= size; at += CHANGE_BYTES)
            change(bytes, data + at);
        check(bytes, FORMAT_SUPER_MIN);
        make_sum_right(bytes);
        check(bytes, FORMAT_SUPER_MIN);
    }
    free(bytes);
    return 0;
}
