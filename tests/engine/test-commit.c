/* Commits: one for all who wait, none for nothing, one by itself after the commit interval. */
#include <pthread.h>
#include <string.h>

#include "served.h"

#define DISK (1u << 20)
#define JOURNAL (4u << 20)
#define CLIENTS 12

static struct engine *engine;

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static unsigned long calls(struct storage *s)
{
    unsigned long n = 0;

    for (int op = 0; op < FAULTY_OPS; op++)
        n += faulty_calls(s, op);
    return n;
}

static void test_empty_flush(void **state)
{
    struct storage *journal, *image;
    struct engine *e = files_serve_faulty(*state, &journal, &image);
    unsigned long journal_calls, image_calls, barriers;

    assert_int_equal(engine_write(served_disk(e), "a", 1, 0, false, NULL), 0);
    barriers = faulty_calls(journal, FAULTY_BARRIER);
    assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    assert_int_equal(faulty_calls(journal, FAULTY_BARRIER), barriers + 1);
    journal_calls = calls(journal);
    image_calls = calls(image);
    for (int i = 0; i < 10; i++)
        assert_int_equal(engine_flush(served_disk(e), NULL), 0);
    assert_int_equal(calls(journal), journal_calls);
    assert_int_equal(calls(image), image_calls);
    served_stop(e);
}

static void *write_fua(void *arg)
{
    CHECK(engine_write(served_disk(engine), "a", 1, (uintptr_t)arg * 100, true, NULL) == 0);
    return NULL;
}

static bool all_published(void *opaque)
{
    struct core_stats stats;

    engine_stats_get(engine, &stats);
    return stats.published_lsn >= *(uint64_t *)opaque;
}

/* While a commit is in flight others come: they share the next one. */
static void test_shared(void **state)
{
    struct storage *journal, *image;
    struct core_stats stats;
    pthread_t threads[CLIENTS];
    unsigned long barriers;
    uint64_t lsn;

    engine = files_serve_faulty(*state, &journal, &image);
    assert_int_equal(engine_flush(served_disk(engine), NULL), 0);
    engine_stats_get(engine, &stats);
    barriers = faulty_calls(journal, FAULTY_BARRIER);
    faulty_block(journal, FAULTY_BARRIER);
    assert_int_equal(pthread_create(&threads[0], NULL, write_fua, (void *)0), 0);
    faulty_wait_blocked(journal, FAULTY_BARRIER, 1);
    for (uintptr_t i = 1; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_fua, (void *)i), 0);
    lsn = stats.last_lsn + CLIENTS + 1; /* with the seal of the first commit */
    eventually(all_published, &lsn);
    faulty_release(journal, FAULTY_BARRIER);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(faulty_calls(journal, FAULTY_BARRIER), barriers + 2);
    served_stop(engine);
}

static bool all_durable(void *opaque)
{
    struct core_stats stats;

    (void)opaque;
    engine_stats_get(engine, &stats);
    return stats.durable_lsn == stats.last_lsn;
}

static void test_interval(void **state)
{
    struct files *files = *state;
    struct core_stats stats;

    files->config.commit_interval_s = 0.05;
    engine = files_serve(files);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(engine_write(served_disk(engine), "a", 1, i, false, NULL), 0);
        eventually(all_durable, NULL);
    }
    engine_stats_get(engine, &stats);
    assert_true(stats.commits >= 3);
    served_stop(engine);
}

static bool is_home(void *opaque)
{
    struct core_stats stats;

    (void)opaque;
    engine_stats_get(engine, &stats);
    return stats.checkpoints > 0;
}

/* A disk that nobody uses drains. */
static void test_idle(void **state)
{
    struct files *files = *state;
    uint8_t model[DISK] = {0};

    engine = files_serve(files);
    assert_int_equal(engine_write(served_disk(engine), "abc", 3, 77, false, NULL), 0);
    eventually(is_home, NULL);
    memcpy(model + 77, "abc", 3);
    assert_file(files->image, model, DISK);
    assert_disk(engine, model, DISK);
    served_stop(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty_flush, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_shared, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_interval, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_idle, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
