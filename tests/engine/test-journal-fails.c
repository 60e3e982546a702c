/* P4: after a failed write or flush of the journal nothing is reported durable any more, on no
 * connection, until a new start; reads go on. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "served.h"

#define DISK (1u << 20)
#define JOURNAL (4u << 20)

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static void assert_reads(struct engine *e, char wanted)
{
    uint8_t buf[4096];

    assert_int_equal(engine_read(served_disk(e), buf, sizeof(buf), 0), 0);
    for (size_t i = 0; i < sizeof(buf); i++)
        assert_int_equal(buf[i], wanted);
}

static void write_block(struct engine *e, char byte, int wanted)
{
    uint8_t buf[4096];

    memset(buf, byte, sizeof(buf));
    assert_int_equal(engine_write(served_disk(e), buf, sizeof(buf), 0, false, NULL), wanted);
}

/* All that must hold from the first failure on. */
static void assert_aborted(struct engine *e, char last_answered)
{
    assert_int_equal(engine_flush(served_disk(e), NULL), -EIO);
    write_block(e, 'x', -EIO);
    assert_int_equal(engine_write(served_disk(e), "y", 1, 9000, true, NULL), -EIO);
    assert_int_equal(engine_zero(served_disk(e), 4096, 0, true, true, NULL), -EIO);
    assert_int_equal(engine_trim(served_disk(e), 4096, 0, false, NULL), -EIO);
    assert_int_equal(served_activate(e), 0); /* a client comes back, and reads */
    assert_reads(e, last_answered);
    assert_int_equal(engine_flush(served_disk(e), NULL), -EIO);
    assert_int_equal(words_count("every write and flush fails"), 1);
    assert_int_equal(engine_stop(e, 60), -EIO);
    assert_true(words_contain("not drained"));
    engine_close(e);
}

/* A second start, on disks that work: what was flushed is there. */
static void assert_next_life(struct files *files, char flushed)
{
    struct storage *journal, *image;
    struct engine *e;

    words_forget();
    e = files_serve_faulty(files, &journal, &image);
    assert_reads(e, flushed);
    served_stop(e);
}

/* The barrier fails once; the next one would succeed, and must not be believed. */
static void test_barrier_fails_once(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);

    write_block(e, 'a', 0);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    write_block(e, 'a', 0); /* the same bytes: the next life may see either */
    faulty_fail(journal, FAULTY_BARRIER, 1, EIO, false);
    assert_int_equal(engine_flush(served_disk(e), NULL), -EIO);
    assert_aborted(e, 'a');
    assert_next_life(files, 'a');
}

static void test_write_fails(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(files, &journal, &image);

    write_block(e, 'a', 0);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    faulty_write_partly(journal, 1, 200, ENOSPC);
    write_block(e, 'b', -EIO);
    assert_aborted(e, 'a');
    assert_next_life(files, 'a');
}

/* What recovery found could not be made durable: a second attempt may not succeed by luck. */
static void test_first_barrier_fails(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e;

    assert_int_equal(files_open_faulty(files, &e, &journal, &image), 0);
    assert_int_equal(engine_start(e), 0);
    faulty_fail(journal, FAULTY_BARRIER, 1, EIO, false);
    assert_int_equal(served_activate(e), -EIO);
    assert_int_equal(served_activate(e), -EIO);
    assert_int_equal(engine_flush(served_disk(e), NULL), -EIO);
    assert_reads(e, 0);
    engine_close(e);
    assert_next_life(files, 0);
}

/* The barrier of the new epoch's superblock. */
static void test_superblock_barrier_fails(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    struct engine *e;

    assert_int_equal(files_open_faulty(files, &e, &journal, &image), 0);
    faulty_fail(journal, FAULTY_BARRIER, 2, EIO, false);
    assert_int_equal(served_activate(e), -EIO);
    assert_int_equal(served_activate(e), -EIO);
    assert_reads(e, 0);
    engine_close(e);
    assert_next_life(files, 0);
}

/* ---- many clients ---- */

#define CLIENTS 8

static struct engine *engine;
static atomic_bool seen_failure;

static void *write_until_failure(void *arg)
{
    uint8_t block[2000];

    memset(block, 'z', sizeof(block));
    for (;;) {
        bool failed_before = atomic_load(&seen_failure);
        int r = engine_write(served_disk(engine), block, sizeof(block), (uintptr_t)arg * 4096,
                             true, NULL);

        if (r != 0) {
            CHECK(r == -EIO);
            atomic_store(&seen_failure, true);
            return NULL;
        }
        /* Nobody who began after somebody was told of the failure may succeed. */
        CHECK(!failed_before);
    }
}

static void test_barrier_fails_among_many(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    pthread_t threads[CLIENTS];

    engine = files_serve_faulty(files, &journal, &image);
    atomic_store(&seen_failure, false);
    faulty_fail(journal, FAULTY_BARRIER, 50, EIO, false);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_until_failure, (void *)i), 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(engine_flush(served_disk(engine), NULL), -EIO);
    assert_int_equal(words_count("every write and flush fails"), 1);
    assert_int_equal(engine_stop(engine, 60), -EIO);
    engine_close(engine);
}

static void *flush_in_vain(void *arg)
{
    (void)arg;
    CHECK(engine_flush(served_disk(engine), NULL) == -EIO);
    return NULL;
}

/* Those who sleep until a commit ends are told what became of it: who leads it, who is covered
 * by it, and who waits for the next one. */
static void test_followers_are_told(void **state)
{
    struct files *files = *state;
    struct storage *journal, *image;
    pthread_t threads[CLIENTS], late;

    engine = files_serve_faulty(files, &journal, &image);
    write_block(engine, 'a', 0);
    faulty_fail(journal, FAULTY_BARRIER, 1, EIO, false);
    faulty_block(journal, FAULTY_BARRIER);
    assert_int_equal(pthread_create(&threads[0], NULL, flush_in_vain, NULL), 0);
    faulty_wait_blocked(journal, FAULTY_BARRIER, 1);
    for (int i = 1; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, flush_in_vain, NULL), 0);
    write_block(engine, 'b', 0);
    assert_int_equal(pthread_create(&late, NULL, flush_in_vain, NULL), 0);
    usleep(50000); /* for them to fall asleep: who comes later is told as well */
    faulty_release(journal, FAULTY_BARRIER);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(late, NULL);
    assert_aborted(engine, 'b');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_barrier_fails_once, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_write_fails, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_first_barrier_fails, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_superblock_barrier_fails, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_barrier_fails_among_many, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_followers_are_told, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
