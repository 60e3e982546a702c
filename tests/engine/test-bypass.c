/* Large writes that go straight to the image: when they do, what waits for them, what a flush owes
 * them, and what a failed flush means. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "served.h"

#define IMAGE_BYTES (1u << 20)
#define LARGE 65536u

static int setup(void **state)
{
    struct files *files;
    int r = files_make(state, IMAGE_BYTES, 4u << 20);

    files = *state;
    if (r == 0)
        files->config.bypass_bytes = LARGE;
    return r;
}

static uint8_t large[2 * LARGE]; /* 'L' */

static int write_large(struct engine *e, uint64_t offset, bool fua)
{
    memset(large, 'L', sizeof(large));
    return engine_write(served_disk(e), large, LARGE, offset, fua, NULL);
}

static struct core_stats stats_of(struct engine *e)
{
    struct core_stats stats;

    engine_stats_get(e, &stats);
    return stats;
}

static void assert_bytes(struct engine *e, uint64_t offset, uint32_t count, char byte)
{
    uint8_t *bytes = malloc(count);

    assert_int_equal(engine_read(served_disk(e), bytes, count, offset), 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(bytes[i], byte);
    free(bytes);
}

/* In the image before any flush, and no record; small ones and FUA have one. */
static void test_who_bypasses(void **state)
{
    struct files *files = *state;
    struct engine *e = files_serve(files);
    uint64_t last = stats_of(e).last_lsn;
    uint8_t *bytes;
    size_t count;

    assert_int_equal(write_large(e, 8192, false), 0);
    assert_int_equal(stats_of(e).last_lsn, last);
    assert_int_equal(stats_of(e).bypass_bytes, LARGE);
    bytes = file_bytes(files->image, &count);
    assert_memory_equal(bytes + 8192, large, LARGE);
    free(bytes);

    assert_int_equal(engine_write(served_disk(e), large, LARGE - 1, 300000, false, NULL), 0);
    assert_int_equal(stats_of(e).last_lsn, last + 1);
    assert_int_equal(write_large(e, 400000, true), 0);
    assert_true(stats_of(e).last_lsn > last + 1);
    assert_int_equal(stats_of(e).bypass_writes, 1);
    served_stop(e);
}

/* Recovery would put the small one over it. */
static void test_not_over_a_record(void **state)
{
    struct files *files = *state;
    struct engine *e = files_serve(files);

    assert_int_equal(engine_write(served_disk(e), "small", 5, 9000, false, NULL), 0);
    assert_int_equal(write_large(e, 8192, false), 0);
    assert_int_equal(stats_of(e).bypass_writes, 0);
    assert_int_equal(stats_of(e).bypass_journaled, 1);
    assert_int_equal(write_large(e, 8192 + LARGE, false), 0); /* beside it */
    assert_int_equal(stats_of(e).bypass_writes, 1);
    assert_bytes(e, 8192, 2 * LARGE, 'L');
    engine_close(e); /* no stop: as if killed */

    e = files_serve(files);
    assert_bytes(e, 8192, 2 * LARGE, 'L');
    served_stop(e);
}

static void test_flush(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);
    unsigned long before = faulty_calls(image, FAULTY_BARRIER);

    assert_int_equal(engine_write(served_disk(e), "small", 5, 0, false, NULL), 0);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    assert_int_equal(faulty_calls(image, FAULTY_BARRIER), before);
    assert_int_equal(write_large(e, 8192, false), 0);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    assert_int_equal(faulty_calls(image, FAULTY_BARRIER), before + 1);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0); /* nothing new */
    assert_int_equal(faulty_calls(image, FAULTY_BARRIER), before + 1);
    served_stop(e);
}

/* A dead server answered it; the next one makes it durable before it is changed. */
static void test_flush_of_a_dead_servers(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);

    assert_int_equal(write_large(e, 8192, false), 0);
    engine_close(e);
    e = files_serve_faulty(files, &journal, &image);
    assert_int_equal(faulty_calls(image, FAULTY_BARRIER), 1);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    assert_int_equal(faulty_calls(image, FAULTY_BARRIER), 1);
    served_stop(e);
}

/* P4: bypassed data is gone, nothing of this disk is believed any more; reads go on. */
static void test_flush_fails(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);

    assert_int_equal(engine_write(served_disk(e), "kept", 4, 0, false, NULL), 0);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    assert_int_equal(write_large(e, 8192, false), 0);
    faulty_fail(image, FAULTY_BARRIER, 1, EIO, false);
    assert_int_equal(engine_flush(served_disk(e), NULL), -EIO);
    assert_true(words_contain("large writes that went straight to it"));
    assert_int_equal(engine_flush(served_disk(e), NULL), -EIO);
    assert_int_equal(engine_write(served_disk(e), "small", 5, 0, false, NULL), -EIO);
    assert_int_equal(write_large(e, 8192, false), -EIO);
    assert_int_equal(engine_trim(served_disk(e), 10, 0, false, NULL), -EIO);
    assert_bytes(e, 8192, LARGE, 'L');
    assert_int_equal(engine_stop(e, 60), 1); /* not complete, so not clean */
    assert_true(words_contain("is not complete"));
    assert_true(words_contain("nothing waits in the journal"));
    assert_false(words_contain("goes on with them"));
    engine_close(e);

    e = files_serve_faulty(files, &journal, &image);
    assert_int_equal(engine_write(served_disk(e), "small", 5, 0, false, NULL), 0);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    served_stop(e);
}

/* The checkpoint is told, and nobody else will be. */
static void test_step_of_a_checkpoint_fails(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);

    assert_int_equal(engine_write(served_disk(e), "small", 5, 0, false, NULL), 0);
    assert_int_equal(write_large(e, 8192, false), 0);
    faulty_fail(image, FAULTY_BARRIER, 1, EIO, false);
    assert_int_equal(engine_stop(e, 60), 1);
    assert_true(words_contain("is not complete"));
    engine_close(e);
}

/* What the image can't take the journal takes. */
static void test_write_fails(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);

    faulty_write_partly(image, 1, 5000, ENOSPC);
    assert_int_equal(write_large(e, 8192, false), 0);
    assert_int_equal(stats_of(e).bypass_writes, 0);
    assert_bytes(e, 8192, LARGE, 'L');
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    served_stop(e);
}

struct writer {
    struct engine *engine;
    uint64_t offset;
    uint32_t count;
    char byte;
    pthread_t thread;
    _Atomic bool done;
};

static void *writer_main(void *opaque)
{
    struct writer *w = opaque;
    uint8_t *bytes = malloc(w->count);

    memset(bytes, w->byte, w->count);
    CHECK(engine_write(served_disk(w->engine), bytes, w->count, w->offset, false, NULL) == 0);
    free(bytes);
    w->done = true;
    return NULL;
}

static void writer_begin(struct writer *w)
{
    w->done = false;
    assert_int_equal(pthread_create(&w->thread, NULL, writer_main, w), 0);
}

static bool is_done(void *opaque)
{
    return ((struct writer *)opaque)->done;
}

/* What overlaps one that is under way comes after it; others do not wait. */
static void test_overlapping_waits(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);
    struct writer first = {e, 8192, LARGE, 'L', 0, false};
    struct writer small = {e, 9000, 100, 's', 0, false};
    struct writer second = {e, 8192 + LARGE / 2, LARGE, 'M', 0, false};
    struct writer beside = {e, 4096, 4096, 'b', 0, false};

    faulty_block(image, FAULTY_WRITE);
    writer_begin(&first);
    faulty_wait_blocked(image, FAULTY_WRITE, 1);
    writer_begin(&small);
    writer_begin(&second);
    writer_begin(&beside);
    eventually(is_done, &beside);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    assert_false(first.done);
    assert_false(small.done);
    assert_false(second.done);
    faulty_release(image, FAULTY_WRITE);
    pthread_join(first.thread, NULL);
    pthread_join(small.thread, NULL);
    pthread_join(second.thread, NULL);
    pthread_join(beside.thread, NULL);
    assert_bytes(e, 4096, 4096, 'b');
    assert_bytes(e, 8192, 808, 'L');
    assert_bytes(e, 9000, 100, 's');
    assert_bytes(e, 8192 + LARGE / 2, LARGE, 'M');
    served_stop(e);
}

static bool has_barrier(void *image)
{
    return faulty_calls(image, FAULTY_BARRIER) > 0;
}

/* Nobody flushes: the commit interval does. */
static void test_commit_interval(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e;

    files->config.commit_interval_s = 0.05;
    e = files_serve_faulty(files, &journal, &image);
    assert_int_equal(faulty_calls(image, FAULTY_BARRIER), 0);
    assert_int_equal(write_large(e, 8192, false), 0);
    eventually(has_barrier, image);
    served_stop(e);
}

/* P5: the image alone is complete, also after a power cut. */
static void test_clean_stop(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);

    assert_int_equal(write_large(e, 8192, false), 0);
    assert_int_equal(faulty_calls(image, FAULTY_BARRIER), 0);
    assert_int_equal(engine_stop(e, 60), 0);
    assert_true(faulty_calls(image, FAULTY_BARRIER) > 0);
    engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_bypasses, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_not_over_a_record, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_flush, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_flush_of_a_dead_servers, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_flush_fails, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_step_of_a_checkpoint_fails, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_write_fails, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_overlapping_waits, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_commit_interval, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_clean_stop, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
