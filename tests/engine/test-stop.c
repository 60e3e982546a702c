/* P5: a stop that drains leaves the image complete; one that has no time says what is left, and the
 * next life has it; requests that wait are let go. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "served.h"

#define DISK (4u << 20)
#define JOURNAL (1u << 20)

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static void test_no_time(void **state)
{
    struct files *files = *state;
    struct engine *e = files_serve(files);
    uint8_t *model = calloc(1, DISK), *before, *after;
    size_t count;

    memset(model + 1000, 'a', 100000);
    before = file_bytes(files->image, &count);
    assert_int_equal(engine_write(served_disk(e), model + 1000, 100000, 1000, false, NULL), 0);
    assert_int_equal(engine_stop(e, 0), 1);
    assert_true(words_contain("not drained"));
    assert_true(words_contain("the time was over"));
    assert_int_equal(engine_write(served_disk(e), "x", 1, 0, false, NULL), -ESHUTDOWN);
    engine_close(e);
    after = file_bytes(files->image, &count);
    assert_memory_equal(before, after, count);

    e = files_serve(files);
    assert_disk(e, model, DISK);
    served_stop(e);
    assert_file(files->image, model, DISK);
    free(model);
    free(before);
    free(after);
}

/* Nothing came, or only readers: nothing is modified. */
static void test_not_activated(void **state)
{
    struct files *files = *state;
    struct engine *e;
    uint8_t *before, *after, byte;
    size_t count;

    served_stop(files_serve(files));
    before = file_bytes(files->journal, &count);
    assert_int_equal(engine_open(&e, &files->config), 0);
    assert_int_equal(engine_start(e), 0);
    assert_int_equal(engine_read(served_disk(e), &byte, 1, 0), 0);
    assert_int_equal(engine_write(served_disk(e), &byte, 1, 0, false, NULL), -EROFS);
    assert_int_equal(engine_stop(e, 60), 0);
    engine_close(e);
    after = file_bytes(files->journal, &count);
    assert_memory_equal(before, after, count);
    free(before);
    free(after);
}

static struct engine *engine;
static atomic_int refused;

static void *write_for_ever(void *arg)
{
    uint8_t *block = calloc(1, 65536);
    int r;

    do
        r = engine_write(served_disk(engine), block, 65536, (uintptr_t)arg * 65536, false,
                         NULL);
    while (r == 0);
    CHECK(r == -ESHUTDOWN);
    atomic_fetch_add(&refused, 1);
    free(block);
    return NULL;
}

static bool is_full(void *opaque)
{
    struct core_stats stats;

    (void)opaque;
    engine_stats_get(engine, &stats);
    return stats.used_bytes > stats.ring_bytes * 3 / 4;
}

/* Writers wait for space, and the image hangs: the stop lets the writers go at once, and ends
 * when the image answers. */
static void test_waiting_writers(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    pthread_t threads[4];

    engine = files_serve_faulty(files, &journal, &image);
    faulty_block(image, FAULTY_WRITE);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_for_ever, (void *)i), 0);
    faulty_wait_blocked(image, FAULTY_WRITE, 1);
    eventually(is_full, NULL);
    faulty_release(image, FAULTY_WRITE);
    assert_int_equal(engine_stop(engine, 60), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&refused), 4);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_time, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_not_activated, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_waiting_writers, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
