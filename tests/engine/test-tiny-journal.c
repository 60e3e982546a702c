/* A journal far smaller than the load never dead-locks (P8): 16 clients send FUA requests that
 * are each larger than the whole journal, others trim and zero everything at the same time. */
#include <pthread.h>
#include <string.h>

#include "served.h"

#define CLIENTS 16
#define REQUEST (4u << 20)
#define ROUNDS 2
#define JOURNAL (1u << 20)
#define DISK ((uint64_t)(CLIENTS + 1) * REQUEST)

static struct engine *engine;

static void *write_large(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    uint8_t *buf = malloc(REQUEST);

    CHECK(buf != NULL);
    for (int round = 0; round < ROUNDS; round++) {
        memset(buf, number * ROUNDS + round + 1, REQUEST);
        CHECK(engine_write(served_disk(engine), buf, REQUEST, number * REQUEST, true, NULL) ==
              0);
    }
    free(buf);
    return NULL;
}

static void *trim_and_zero(void *arg)
{
    (void)arg;
    for (int round = 0; round < 50; round++) {
        CHECK(engine_trim(served_disk(engine), REQUEST, DISK - REQUEST, round % 2, NULL) == 0);
        CHECK(engine_zero(served_disk(engine), REQUEST / 2, DISK - REQUEST, false, false,
                          NULL) == 0);
        CHECK(engine_flush(served_disk(engine), NULL) == 0);
    }
    return NULL;
}

static void test_tiny_journal(void **state)
{
    struct files *files = *state;
    pthread_t threads[CLIENTS + 1];
    uint8_t *model = calloc(1, DISK);

    engine = files_serve(files);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_large, (void *)i), 0);
    assert_int_equal(pthread_create(&threads[CLIENTS], NULL, trim_and_zero, NULL), 0);
    for (int i = 0; i <= CLIENTS; i++)
        pthread_join(threads[i], NULL);
    for (uint64_t i = 0; i < CLIENTS; i++)
        memset(model + i * REQUEST, (i + 1) * ROUNDS, REQUEST);
    assert_disk(engine, model, DISK);
    served_stop(engine);
    assert_file(files->image, model, DISK);
    free(model);
}

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tiny_journal, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
