/* Many clients: each writes slots of its own with growing numbers and flushes now and then, all
 * read each other's slots.  A slot never shows a torn block, and never a number lower than one
 * that was answered before the read began (P7). */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "served.h"

#define WRITERS 8
#define READERS 4
#define SLOTS 64
#define BLOCK 3000 /* not aligned, so that neighbours share sectors */
#define ROUNDS 600
#define DISK (WRITERS * SLOTS * BLOCK)

struct world {
    struct engine *e;
    atomic_uint_least64_t answered[WRITERS][SLOTS];
    atomic_bool done;
};

struct client {
    struct world *world;
    unsigned number;
    pthread_t thread;
};

static uint64_t slot_offset(unsigned writer, unsigned slot)
{
    return ((uint64_t)writer * SLOTS + slot) * BLOCK;
}

static void fill(uint8_t *block, unsigned writer, unsigned slot, uint64_t number)
{
    uint64_t seed = number * 1000003 + writer * SLOTS + slot;

    memcpy(block, &number, sizeof(number));
    for (size_t i = sizeof(number); i + 8 <= BLOCK; i += 8) {
        uint64_t word = random_next(&seed);
        memcpy(block + i, &word, 8);
    }
}

static void *write_slots(void *arg)
{
    struct client *client = arg;
    struct world *w = client->world;
    uint64_t seed = client->number + 1;
    uint8_t block[BLOCK] = {0};

    for (uint64_t number = 1; number <= ROUNDS; number++) {
        unsigned slot = random_next(&seed) % SLOTS;

        fill(block, client->number, slot, number);
        CHECK(engine_write(served_disk(w->e), block, BLOCK, slot_offset(client->number, slot),
                           random_next(&seed) % 8 == 0, NULL) == 0);
        atomic_store(&w->answered[client->number][slot], number);
        if (random_next(&seed) % 8 == 0)
            CHECK(engine_flush(served_disk(w->e), NULL) == 0);
    }
    return NULL;
}

static uint64_t check_slot(struct world *w, unsigned writer, unsigned slot)
{
    uint64_t at_least = atomic_load(&w->answered[writer][slot]), number;
    uint8_t got[BLOCK], wanted[BLOCK] = {0};

    CHECK(engine_read(served_disk(w->e), got, BLOCK, slot_offset(writer, slot)) == 0);
    memcpy(&number, got, sizeof(number));
    CHECK(number >= at_least);
    if (number != 0)
        fill(wanted, writer, slot, number);
    CHECK(memcmp(got, wanted, BLOCK) == 0);
    return number;
}

static void *read_slots(void *arg)
{
    struct client *client = arg;
    struct world *w = client->world;
    uint64_t seed = 1000 + client->number;

    while (!atomic_load(&w->done))
        check_slot(w, random_next(&seed) % WRITERS, random_next(&seed) % SLOTS);
    return NULL;
}

static void start(struct client *client, struct world *w, unsigned number, void *(*f)(void *))
{
    client->world = w;
    client->number = number;
    assert_int_equal(pthread_create(&client->thread, NULL, f, client), 0);
}

static void run(struct files *files)
{
    struct client writers[WRITERS], readers[READERS];
    struct world *w = calloc(1, sizeof(*w));
    struct core_stats stats;

    w->e = files_serve(files);
    for (unsigned i = 0; i < WRITERS; i++)
        start(&writers[i], w, i, write_slots);
    for (unsigned i = 0; i < READERS; i++)
        start(&readers[i], w, i, read_slots);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writers[i].thread, NULL);
    atomic_store(&w->done, true);
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(readers[i].thread, NULL);
    engine_stats_get(w->e, &stats);
    assert_false(stats.aborted);
    served_stop(w->e);

    /* The image alone, through a second life. */
    w->e = files_serve(files);
    for (unsigned i = 0; i < WRITERS; i++) {
        for (unsigned slot = 0; slot < SLOTS; slot++)
            assert_int_equal(check_slot(w, i, slot), atomic_load(&w->answered[i][slot]));
    }
    served_stop(w->e);
    free(w);
}

static int setup_small(void **state)
{
    return files_make(state, DISK, 1u << 20);
}

static int setup_large(void **state)
{
    return files_make(state, DISK, 64u << 20);
}

static void test_small_journal(void **state)
{
    run(*state);
}

static void test_large_journal(void **state)
{
    run(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_small_journal, setup_small, files_drop),
        cmocka_unit_test_setup_teardown(test_large_journal, setup_large, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
