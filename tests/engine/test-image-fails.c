/* An image that can't be written: nothing is lost, writers learn of it when the journal is full,
 * and it goes on by itself when the image is well again. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "served.h"

#define DISK (8u << 20)
#define JOURNAL (1u << 20)
#define BLOCK 8192

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static uint8_t *model;

/* Writes until it fails; the failed write is repeated until it succeeds in the model, too. */
static int write_blocks(struct engine *e, unsigned count, uint8_t byte)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t offset = (uint64_t)i * BLOCK;
        uint8_t buf[BLOCK];
        int r;

        memset(buf, byte, BLOCK);
        r = engine_write(served_disk(e), buf, BLOCK, offset, i % 4 == 0, NULL);
        if (r != 0)
            return r;
        memcpy(model + offset, buf, BLOCK);
    }
    return 0;
}

static bool is_healed(void *opaque)
{
    (void)opaque;
    return words_contain("works again");
}

static void fail_and_heal(struct files *files, enum faulty_op op, int error)
{
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);
    struct core_stats stats;

    model = calloc(1, DISK);
    assert_int_equal(write_blocks(e, 200, 'a'), 0);
    faulty_fail(image, op, 1, error, true);
    /* Far more than the journal holds: ends in bounded time, with the image's error. */
    assert_int_equal(write_blocks(e, DISK / BLOCK, 'b'), -error);
    assert_disk(e, model, DISK);
    assert_int_equal(engine_flush(served_disk(e), NULL),
                     0); /* what was answered can be made durable still */
    engine_stats_get(e, &stats);
    assert_int_equal(stats.image_error, -error);
    assert_false(stats.aborted);
    assert_int_equal(words_count("error: image"), 1);

    faulty_heal(image, op);
    eventually(is_healed, NULL);
    assert_int_equal(write_blocks(e, DISK / BLOCK, 'c'), 0);
    assert_disk(e, model, DISK);
    served_stop(e);
    assert_file(files->image, model, DISK);
    free(model);
}

static void test_write_fails(void **state)
{
    fail_and_heal(*state, FAULTY_WRITE, ENOSPC);
}

static void test_barrier_fails(void **state)
{
    fail_and_heal(*state, FAULTY_BARRIER, EIO);
}

/* A flush of the image that failed once and then succeeds proves nothing about what was written
 * before it: all of it is written again before the journal lets go of it. */
static void test_rewritten_after_failed_barrier(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);
    unsigned long before, failed;

    model = calloc(1, DISK);
    assert_int_equal(write_blocks(e, 10, 'a'), 0);
    /* Every other block, so that each is a write of its own. */
    for (unsigned i = 0; i < 10; i += 2)
        assert_int_equal(engine_trim(served_disk(e), BLOCK, i * BLOCK, false, NULL), 0);
    before = faulty_calls(image, FAULTY_WRITE);
    faulty_fail(image, FAULTY_BARRIER, 1, EIO, false);
    assert_int_equal(engine_stop(e, 60), 0);
    failed = faulty_calls(image, FAULTY_WRITE) - before;
    assert_int_equal(failed, 10); /* five blocks, twice */
    engine_close(e);
    free(model);
}

/* A stop while the image fails says that data is left; the next life has it. */
static void test_stop_while_failing(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);

    model = calloc(1, DISK);
    assert_int_equal(write_blocks(e, 20, 'a'), 0);
    faulty_fail(image, FAULTY_WRITE, 1, EIO, true);
    assert_int_equal(engine_stop(e, 60), 1);
    assert_true(words_contain("not drained"));
    assert_true(words_contain("the image can't be written"));
    engine_close(e);

    e = files_serve_faulty(files, &journal, &image);
    assert_disk(e, model, DISK);
    served_stop(e);
    assert_file(files->image, model, DISK);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_write_fails, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_barrier_fails, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_rewritten_after_failed_barrier, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_stop_while_failing, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
