/* A map with little memory: data goes home when it is full, and no request fails. */
#include <string.h>

#include "served.h"

#define DISK (16u << 20)
#define JOURNAL (64u << 20)

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static void test_memory(void **state)
{
    struct files *files = *state;
    uint8_t *model = calloc(1, DISK);
    struct core_stats stats;
    struct engine *e;
    uint64_t seed = 3;

    files->config.memory_bytes = 64u << 10; /* a thousand pieces */
    e = files_serve(files);
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t offset = random_next(&seed) % (DISK / 64) * 64;

        model[offset] = i;
        assert_int_equal(engine_write(served_disk(e), &model[offset], 1, offset, false, NULL),
                         0);
    }
    engine_stats_get(e, &stats);
    assert_true(stats.checkpoints > 0);
    assert_true(stats.used_bytes <
                stats.ring_bytes / 2); /* it was not the ring that was full */
    assert_disk(e, model, DISK);
    served_stop(e);
    assert_file(files->image, model, DISK);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
