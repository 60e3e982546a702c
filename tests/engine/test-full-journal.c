/* A journal that is full when the server dies, again and again, with an image that can't be
 * written: each start needs room for its EPOCH record, and when there is none left it needs the
 * image.  When the image is well again everything is there. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "served.h"

#define DISK (4u << 20)
#define JOURNAL (1u << 20)
#define BLOCK 5000
#define STARTS 12

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static void fill(uint8_t *block, unsigned number)
{
    memset(block, 1 + number % 255, BLOCK);
}

/* Each life of the server, in a child, ends with kill -9.  Exit codes say what happened. */
static int life(const struct files *files, bool first)
{
    struct storage *journal, *image;
    uint8_t block[BLOCK];
    struct engine *e;
    int r;

    CHECK(files_open_faulty(files, &e, &journal, &image) == 0);
    faulty_fail(image, FAULTY_WRITE, 1, EIO, true);
    CHECK(engine_start(e) == 0);
    r = served_activate(e);
    for (unsigned i = 0; first && r == 0; i++) {
        fill(block, i);
        r = engine_write(served_disk(e), block, BLOCK, (uint64_t)i * BLOCK, false, NULL);
        if (r == 0)
            CHECK(write(STDOUT_FILENO, "w", 1) == 1); /* answered: counted by the parent */
    }
    /* The image's error, from the full ring. */
    CHECK(r == (first ? -EIO : 0) || r == -EIO);
    CHECK(write(STDOUT_FILENO, r == 0 ? "+" : "-", 1) == 1);
    kill(getpid(), SIGKILL);
    return 0;
}

/* Runs a life; returns how many writes were answered, *active whether it could be activated. */
static unsigned run_life(const struct files *files, bool first, bool *active)
{
    unsigned answered = 0;
    int pipes[2], status;
    pid_t pid;
    char c;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(pipes[0]);
        dup2(pipes[1], STDOUT_FILENO);
        _exit(life(files, first));
    }
    close(pipes[1]);
    *active = false;
    while (read(pipes[0], &c, 1) == 1) {
        answered += c == 'w';
        *active = c == '+';
    }
    close(pipes[0]);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return answered;
}

static void test_full_journal(void **state)
{
    struct files *files = *state;
    uint8_t *model = calloc(1, DISK);
    struct storage *journal, *image;
    struct engine *e;
    unsigned answered, refused = 0;
    bool active;

    answered = run_life(files, true, &active);
    assert_true(answered > 100);
    for (unsigned i = 0; i < answered; i++)
        fill(model + (uint64_t)i * BLOCK, i);
    for (int i = 0; i < STARTS; i++) {
        run_life(files, false, &active);
        refused += !active;
    }
    assert_true(refused > 0); /* else the ring was never full, and this test tests nothing */

    e = files_serve_faulty(files, &journal, &image);
    assert_disk(e, model, DISK);
    assert_int_equal(engine_write(served_disk(e), "end", 3, DISK - 3, true, NULL), 0);
    memcpy(model + DISK - 3, "end", 3);
    served_stop(e);
    assert_file(files->image, model, DISK);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_full_journal, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
