/* P0: the server is killed at any moment; every answered request is there afterwards, flushed or
 * not, and what is there is a prefix of what was sent (P2).
 *
 * A child serves and is its own client: threads write numbered blocks, each to places of its own,
 * and note each answer in shared memory.  The parent kills it and looks. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "served.h"

#define CLIENTS 6
#define SLOTS 16
#define BLOCK 5000
#define DISK (CLIENTS * SLOTS * BLOCK)
#define LIVES 12

struct shared {
    atomic_uint_least64_t answered[CLIENTS]; /* last number */
    atomic_uint_least64_t sent[CLIENTS];
};

static struct shared *shared;
static struct engine *engine;

static void fill(uint8_t *block, unsigned client, uint64_t number)
{
    uint64_t seed = number * CLIENTS + client;

    memcpy(block, &number, sizeof(number));
    for (size_t i = sizeof(number); i < BLOCK; i += 8) {
        uint64_t word = random_next(&seed);
        memcpy(block + i, &word, BLOCK - i < 8 ? BLOCK - i : 8);
    }
}

static uint64_t place_of(unsigned client, uint64_t number)
{
    return ((uint64_t)client * SLOTS + number % SLOTS) * BLOCK;
}

/* Numbers go on from life to life. */
static void *write_for_ever(void *arg)
{
    unsigned client = (uintptr_t)arg;
    uint8_t block[BLOCK];

    for (;;) {
        uint64_t number = atomic_load(&shared->sent[client]) + 1;

        atomic_store(&shared->sent[client], number);
        fill(block, client, number);
        CHECK(engine_write(served_disk(engine), block, BLOCK, place_of(client, number),
                           number % 7 == 0, NULL) == 0);
        atomic_store(&shared->answered[client], number);
        if (number % 50 == client)
            CHECK(engine_flush(served_disk(engine), NULL) == 0);
    }
}

static void serve(const struct files *files)
{
    pthread_t thread;

    engine = files_serve(files);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        CHECK(pthread_create(&thread, NULL, write_for_ever, (void *)i) == 0);
    pause();
}

/* The newest number that is there must be at least the last answered one, and every slot must
 * hold what the prefix up to that number left in it. */
static void check_client(unsigned client)
{
    uint8_t got[BLOCK], wanted[BLOCK];
    uint64_t newest = 0;

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        uint64_t number;
        assert_int_equal(engine_read(served_disk(engine), got, BLOCK, place_of(client, slot)),
                         0);
        memcpy(&number, got, sizeof(number));
        if (number > newest)
            newest = number;
    }
    assert_true(newest >= atomic_load(&shared->answered[client]));
    assert_true(newest <= atomic_load(&shared->sent[client]));
    for (uint64_t number = newest; number > 0 && number + SLOTS > newest; number--) {
        assert_int_equal(engine_read(served_disk(engine), got, BLOCK, place_of(client, number)),
                         0);
        fill(wanted, client, number);
        assert_memory_equal(got, wanted, BLOCK);
    }
    atomic_store(&shared->sent[client], newest);
    atomic_store(&shared->answered[client], newest);
}

static void test_kill(void **state)
{
    struct files *files = *state;
    uint64_t seed = 7;

    shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (int life = 0; life < LIVES; life++) {
        uint64_t goal = atomic_load(&shared->answered[0]) + random_next(&seed) % 200;
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            serve(files);
            _exit(1);
        }
        /* Some work, then a moment that nobody has chosen. */
        while (atomic_load(&shared->answered[0]) < goal && waitpid(pid, &status, WNOHANG) == 0)
            usleep(100);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

        /* Looked at without modifying anything, then brought home in every third life. */
        assert_int_equal(engine_open(&engine, &files->config), 0);
        for (unsigned client = 0; client < CLIENTS; client++)
            check_client(client);
        if (life % 3 == 2) {
            assert_int_equal(engine_start(engine), 0);
            assert_int_equal(served_activate(engine), 0);
            assert_int_equal(engine_stop(engine, 60), 0);
        }
        engine_close(engine);
    }
    munmap(shared, sizeof(*shared));
}

static int setup(void **state)
{
    return files_make(state, DISK, 4u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kill, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
