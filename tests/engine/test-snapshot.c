/* Snapshots are taken while clients come, work and go: sums never go back, what a disk counted
 * is what its clients did, whoever of them is still there, and in the end it is all that was
 * asked for. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "served.h"
#include "stats.h"

#define CLIENTS 6
#define ROUNDS 20
#define WRITES 20
#define BLOCK 4096
#define DISK (CLIENTS * WRITES * BLOCK)

static struct engine *engine;
static atomic_bool done;

/* One who connects, works and leaves, again and again; sometimes with two connections. */
static void *work(void *arg)
{
    uint64_t number = (uintptr_t)arg;
    struct engine_disk *d = served_disk(engine);
    uint8_t block[BLOCK];

    memset(block, (int)number, sizeof(block));
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct engine_client one = {.client = number, .connection = 1000 * number + 2 * round};
        struct engine_client two = {.client = number, .connection = one.connection + 1};

        CHECK(stats_connect(d, "one", &one) == 0);
        CHECK(stats_connect(d, "two", &two) == 0);
        CHECK(one.stats == two.stats);
        for (unsigned i = 0; i < WRITES; i++) {
            int r = engine_write(d, block, BLOCK, (number * WRITES + i) * BLOCK, false, &one);
            CHECK(stats_count(one.stats, STATS_WRITE, BLOCK, false, r) == 0);
        }
        engine_disconnect(engine, &one);
        CHECK(stats_count(two.stats, STATS_FLUSH, 0, false, engine_flush(d, &two)) == 0);
        engine_disconnect(engine, &two);
    }
    return NULL;
}

static void check_sums(const struct snapshot *s)
{
    uint64_t writes = 0;

    CHECK(s->disk_count == 1 && s->disks_left_out == 0 && s->clients_left_out == 0);
    for (unsigned i = 0; i < s->client_count; i++) {
        CHECK(s->clients[i].disk == 0);
        CHECK(s->clients[i].connections >= 1 && s->clients[i].connections <= 2);
        writes += s->clients[i].requests.count[STATS_WRITE];
    }
    CHECK(s->client_count <= CLIENTS);
    CHECK(writes <= s->requests.count[STATS_WRITE]);
    /* Bytes are counted after the request. */
    CHECK(s->requests.bytes[STATS_WRITE] / BLOCK + CLIENTS >= s->requests.count[STATS_WRITE]);
    CHECK(s->requests.count[STATS_WRITE] == s->disks[0].requests.count[STATS_WRITE]);
    CHECK(s->dirty_bytes == s->disks[0].dirty_bytes && s->dirty_bytes <= DISK);
    CHECK(s->core.used_bytes <= s->core.ring_bytes);
    CHECK(s->oldest_age_ns <= s->uptime_ns);
}

static void *watch(void *arg)
{
    struct snapshot *now = calloc(1, sizeof(*now));
    uint64_t writes = 0, flushes = 0, commits = 0;

    (void)arg;
    while (!atomic_load(&done)) {
        CHECK(engine_snapshot(engine, now) == 0);
        check_sums(now);
        CHECK(now->requests.count[STATS_WRITE] >= writes);
        CHECK(now->requests.count[STATS_FLUSH] >= flushes);
        CHECK(now->commit_ns.count >= commits);
        writes = now->requests.count[STATS_WRITE];
        flushes = now->requests.count[STATS_FLUSH];
        commits = now->commit_ns.count;
        snapshot_free(now);
    }
    free(now);
    return NULL;
}

static void test_clients_come_and_go(void **state)
{
    struct snapshot *s = calloc(1, sizeof(*s));
    pthread_t workers[CLIENTS], watcher;

    engine = files_serve(*state);
    served_disk(engine);
    assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, work, (void *)i), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_join(workers[i], NULL);
    atomic_store(&done, true);
    pthread_join(watcher, NULL);

    assert_int_equal(engine_snapshot(engine, s), 0);
    assert_int_equal(s->client_count, 0);
    assert_int_equal(s->requests.count[STATS_WRITE], CLIENTS * ROUNDS * WRITES);
    assert_int_equal(s->requests.bytes[STATS_WRITE], CLIENTS * ROUNDS * WRITES * BLOCK);
    assert_int_equal(s->requests.count[STATS_FLUSH], CLIENTS * ROUNDS);
    assert_int_equal(s->requests.errors, 0);
    assert_int_equal(s->commit_ns.count, s->core.commits);
    assert_int_equal(s->batch.flushes + s->core.empty_flushes, CLIENTS * ROUNDS);
    snapshot_free(s);
    free(s);
    served_stop(engine);
}

static int setup(void **state)
{
    return files_make(state, DISK, 4u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_clients_come_and_go, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
