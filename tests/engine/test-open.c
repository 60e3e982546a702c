/* What is refused before the first client, and what is served without being modified (P6). */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "served.h"

#define DISK (1u << 20)
#define JOURNAL (2u << 20)

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

/* A server that wrote "abc" to byte 5, and was killed. */
static void leave_dirty(const struct files *files)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct engine *e = files_serve(files);

        CHECK(engine_write(served_disk(e), "abc", 3, 5, false, NULL) == 0);
        kill(getpid(), SIGKILL);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

struct snapshot {
    uint8_t *image, *journal;
    size_t image_count, journal_count;
};

static struct snapshot snapshot(const struct files *files)
{
    struct snapshot s;

    s.image = file_bytes(files->image, &s.image_count);
    s.journal = file_bytes(files->journal, &s.journal_count);
    return s;
}

static void assert_unmodified(const struct files *files, struct snapshot *before)
{
    struct snapshot after = snapshot(files);

    assert_int_equal(before->image_count, after.image_count);
    assert_int_equal(before->journal_count, after.journal_count);
    assert_memory_equal(before->image, after.image, after.image_count);
    assert_memory_equal(before->journal, after.journal, after.journal_count);
    free(after.image);
    free(after.journal);
    free(before->image);
    free(before->journal);
}

static void assert_sees_abc(struct engine *e)
{
    char buf[5];

    assert_int_equal(engine_read(served_disk(e), buf, 5, 4), 0);
    assert_memory_equal(buf, "\0abc\0", 5);
}

static void test_read_only_client(void **state)
{
    struct files *files = *state;
    struct snapshot before;
    struct engine *e;

    leave_dirty(files);
    before = snapshot(files);
    assert_int_equal(engine_open(&e, &files->config), 0);
    assert_true(words_contain("recovery found 1 change with 3 bytes"));
    assert_int_equal(engine_start(e), 0);
    assert_sees_abc(e);
    assert_int_equal(engine_write(served_disk(e), "x", 1, 0, false, NULL), -EROFS);
    assert_int_equal(engine_stop(e, 60), 0);
    engine_close(e);
    assert_unmodified(files, &before);
}

/* As with permissions that forbid writing. */
static void test_read_only_files(void **state)
{
    struct files *files = *state;
    struct storage *image, *journal;
    struct snapshot before;
    struct engine *e;

    leave_dirty(files);
    before = snapshot(files);
    assert_int_equal(storage_open_file(&image, files->image, "image", true, false, true), 0);
    assert_int_equal(storage_open_file(&journal, files->journal, "journal", true, false, true),
                     0);
    assert_int_equal(engine_open_storages(&e, &files->config, journal, image), 0);
    assert_true(engine_disk_read_only(served_disk(e)));
    assert_int_equal(engine_start(e), 0);
    assert_int_equal(served_activate(e), -EROFS);
    assert_sees_abc(e);
    assert_int_equal(engine_stop(e, 60), 0);
    engine_close(e);
    assert_unmodified(files, &before);
}

static void test_recover_no(void **state)
{
    struct files *files = *state;
    struct snapshot before;
    struct engine *e;

    files->config.recover = ENGINE_RECOVER_NO;
    served_stop(files_serve(files)); /* nothing to recover: fine */
    leave_dirty(files);
    before = snapshot(files);
    assert_int_equal(engine_open(&e, &files->config), -EINVAL);
    assert_true(words_contain("recover=no"));
    assert_unmodified(files, &before);
}

static void test_only_check(void **state)
{
    struct files *files = *state;
    struct snapshot before;
    struct engine *e;

    files->config.recover = ENGINE_RECOVER_ONLY_CHECK;
    assert_int_equal(engine_open(&e, &files->config), -ECANCELED);
    assert_int_equal(access(files->journal, F_OK), -1); /* not created */
    files->config.recover = ENGINE_RECOVER_YES;
    leave_dirty(files);
    before = snapshot(files);
    files->config.recover = ENGINE_RECOVER_ONLY_CHECK;
    assert_int_equal(engine_open(&e, &files->config), -ECANCELED);
    assert_true(words_contain("in order"));
    assert_unmodified(files, &before);
}

static void test_journal_is_image(void **state)
{
    struct files *files = *state;
    struct engine *e;

    files->config.journal_path = files->image;
    assert_int_equal(engine_open(&e, &files->config), -EINVAL);
    assert_true(words_contain("is the image itself"));
    assert_int_equal(link(files->image, files->journal), 0); /* by another name */
    files->config.journal_path = files->journal;
    words_forget();
    assert_int_equal(engine_open(&e, &files->config), -EINVAL);
    assert_true(words_contain("is the image itself"));
}

static void test_marked_image_without_journal(void **state)
{
    struct files *files = *state;
    struct engine *e;
    char aside[600];

    leave_dirty(files);
    if (getxattr(files->image, "user.nbdkit.journal", NULL, 0) < 0)
        skip(); /* no extended attributes in $TMPDIR */
    snprintf(aside, sizeof(aside), "%s.aside", files->journal);
    assert_int_equal(rename(files->journal, aside), 0);
    assert_int_equal(engine_open(&e, &files->config), -EINVAL);
    assert_true(words_contain("bring that journal back"));
    assert_int_equal(access(files->journal, F_OK), -1); /* not created */
    assert_int_equal(rename(aside, files->journal), 0);
    served_stop(files_serve(files));
}

static void test_journal_of_other_size(void **state)
{
    struct files *files = *state;

    served_stop(files_serve(files));
    files->config.journal_size *= 2;
    served_stop(files_serve(files));
    assert_true(words_contain("is used as it is"));
}

static void test_second_server(void **state)
{
    struct files *files = *state;
    struct engine *e = files_serve(files), *second;

    assert_int_equal(engine_open(&second, &files->config), -EBUSY);
    assert_true(words_contain("in use by"));
    served_stop(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read_only_client, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_read_only_files, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_recover_no, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_only_check, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_journal_is_image, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_marked_image_without_journal, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_journal_of_other_size, setup, files_drop),
        cmocka_unit_test_setup_teardown(test_second_server, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
