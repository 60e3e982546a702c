/* A whole life of the server, from the first open over a checkpoint or two to the clean stop, is
 * killed at a call that it makes to journal or image, then at a later one, until it comes to its
 * end.  The next life must open the pair and have every answered request (P0), and a clean stop
 * must leave a complete image (P5).  Once with staging, whose direct writes are no such calls, and
 * once through the page cache, where every write is one. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "served.h"

#define DISK (1u << 20)
#define JOURNAL (1u << 20)
#define WRITES 60 /* more than half of the journal */
#define BLOCK 9000

struct shared {
    atomic_uint calls;
    atomic_uint answered; /* writes */
    atomic_bool stopped;  /* cleanly */
};

static struct shared *shared;
static unsigned kill_at;
static bool with_staging;

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static void maybe_die(void *opaque, enum faulty_op op, uint64_t offset, uint64_t count)
{
    (void)opaque;
    (void)op;
    (void)offset;
    (void)count;
    if (atomic_fetch_add(&shared->calls, 1) + 1 == kill_at)
        kill(getpid(), SIGKILL);
}

/* A storage without descriptor can't be staged. */
static struct storage *opened(const char *path, const char *role, bool watch)
{
    struct storage *s;

    CHECK(storage_open_file(&s, path, role, false, false, true) == 0);
    s = faulty_create(s, with_staging);
    CHECK(s != NULL);
    if (watch)
        faulty_watch(s, maybe_die, NULL);
    return s;
}

static struct engine *open_engine(const struct files *files, bool watch)
{
    struct storage *journal = opened(files->journal, "journal", watch);
    struct storage *image = opened(files->image, "image", watch);
    struct engine *e;

    CHECK(engine_open_storages(&e, &files->config, journal, image) == 0);
    return e;
}

static void fill(uint8_t *block, unsigned round, unsigned i)
{
    memset(block, 1 + (round * WRITES + i) % 255, BLOCK);
}

static uint64_t offset_of(unsigned i)
{
    return 1000 + (uint64_t)i * BLOCK;
}

static void live(const struct files *files, unsigned round)
{
    struct engine *e = open_engine(files, true);
    uint8_t block[BLOCK];

    CHECK(engine_start(e) == 0);
    CHECK(served_activate(e) == 0);
    for (unsigned i = 0; i < WRITES; i++) {
        fill(block, round, i);
        CHECK(engine_write(served_disk(e), block, BLOCK, offset_of(i), i % 8 == 7, NULL) == 0);
        atomic_store(&shared->answered, i + 1);
    }
    CHECK(engine_flush(served_disk(e), NULL) == 0);
    CHECK(engine_stop(e, 60) == 0);
    engine_close(e);
    atomic_store(&shared->stopped, true);
    _exit(0);
}

/* Each block has the bytes of this round, or, if it was not answered, of the round before.  The
 * model then gets what is there. */
static void check(struct engine *e, uint8_t *model, unsigned round)
{
    uint8_t got[BLOCK], wanted[BLOCK];

    for (unsigned i = 0; i < WRITES; i++) {
        assert_int_equal(engine_read(served_disk(e), got, BLOCK, offset_of(i)), 0);
        fill(wanted, round, i);
        if (memcmp(got, wanted, BLOCK) != 0) {
            assert_true(i >= atomic_load(&shared->answered));
            assert_memory_equal(got, model + offset_of(i), BLOCK);
        }
        memcpy(model + offset_of(i), got, BLOCK);
    }
}

static void run(struct files *files, unsigned calls_between, unsigned rounds_min)
{
    uint8_t *model = calloc(1, DISK);
    unsigned round = 0;

    shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    CHECK(journal_create_file(files->journal, JOURNAL, false) == 0);
    while (!atomic_load(&shared->stopped)) {
        struct engine *e;
        int status;
        pid_t pid;

        round++;
        memset(shared, 0, sizeof(*shared));
        kill_at = 1 + round * calls_between;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            live(files, round);
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL
                                        : WEXITSTATUS(status) == 0);

        e = open_engine(files, false);
        check(e, model, round);
        assert_disk(e, model, DISK);
        if (atomic_load(&shared->stopped))
            assert_file(files->image, model, DISK);
        /* Every other time the next life finds the journal as it was left. */
        if (round % 2 == 0) {
            assert_int_equal(engine_start(e), 0);
            assert_int_equal(served_activate(e), 0);
            assert_int_equal(engine_stop(e, 60), 0);
            assert_file(files->image, model, DISK);
        }
        engine_close(e);
    }
    assert_true(round > rounds_min);
    munmap(shared, sizeof(*shared));
    free(model);
}

static void test_staging(void **state)
{
    with_staging = true;
    run(*state, 1, 10);
}

static void test_page_cache(void **state)
{
    with_staging = false;
    run(*state, 3, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_staging, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_page_cache, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
