/* One client, one request after the other: what was written, zeroed and trimmed is read back, at
 * every alignment, from the journal, after it went home, and from the image alone. */
#include <string.h>

#include "served.h"

#define DISK ((3u << 20) + 511) /* no multiple of anything */
#define JOURNAL (1u << 20)      /* wraps many times */

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static void one_request(struct engine *e, uint8_t *model, uint8_t *buf, uint64_t *seed)
{
    /* Mostly small, sometimes larger than a record may be. */
    uint32_t max = random_next(seed) % 8 == 0 ? 700000 : 9000;
    uint64_t offset = random_next(seed) % DISK;
    uint32_t count = 1 + random_next(seed) % max;
    bool fua = random_next(seed) % 4 == 0;

    if (count > DISK - offset)
        count = DISK - offset;
    switch (random_next(seed) % 8) {
    case 0:
        assert_int_equal(engine_zero(served_disk(e), count, offset, false, fua, NULL), 0);
        memset(model + offset, 0, count);
        break;
    case 1:
        assert_int_equal(engine_zero(served_disk(e), count, offset, true, fua, NULL), 0);
        memset(model + offset, 0, count);
        break;
    case 2:
        assert_int_equal(engine_trim(served_disk(e), count, offset, fua, NULL), 0);
        memset(model + offset, 0, count);
        break;
    case 3:
        assert_int_equal(engine_read(served_disk(e), buf, count, offset), 0);
        assert_memory_equal(buf, model + offset, count);
        break;
    case 4:
        assert_int_equal(engine_flush(served_disk(e), NULL), 0);
        break;
    default:
        for (uint32_t i = 0; i < count; i++)
            buf[i] = random_next(seed);
        assert_int_equal(engine_write(served_disk(e), buf, count, offset, fua, NULL), 0);
        memcpy(model + offset, buf, count);
    }
}

static void test_requests(void **state)
{
    struct files *files = *state;
    uint8_t *model = calloc(1, DISK), *buf = malloc(DISK);
    struct core_stats stats;
    uint64_t seed = 1;

    for (int life = 0; life < 4; life++) {
        struct engine *e = files_serve(files);

        assert_disk(e, model, DISK);
        for (int i = 0; i < 300; i++)
            one_request(e, model, buf, &seed);
        assert_disk(e, model, DISK);
        engine_stats_get(e, &stats);
        assert_true(stats.checkpoints > 0);
        served_stop(e);
        assert_file(files->image, model, DISK); /* P5 */
    }
    free(model);
    free(buf);
}

static void test_last_byte(void **state)
{
    struct files *files = *state;
    struct engine *e = files_serve(files);
    uint8_t byte = 0;

    assert_int_equal(engine_write(served_disk(e), "x", 1, DISK - 1, true, NULL), 0);
    assert_int_equal(engine_read(served_disk(e), &byte, 1, DISK - 1), 0);
    assert_int_equal(byte, 'x');
    served_stop(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_last_byte, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
