/* create: what a new journal does when the file system can't do something, or fails halfway:
 * nothing half made is ever seen under its name, and nothing is left behind.
 *
 * The answers of the kernel come from wrappers around its calls in this file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach.h"
#include "place.h"
#include "words.h"

#define MIB (UINT64_C(1) << 20)

static const char *disk;

/* ---- the kernel, when it is difficult ---- */

static bool no_unnamed, no_rename, no_fallocate;
static int calls, fail_at, fail_errno; /* the call of this number fails; 0: none */
static char trace[4096];               /* names of the calls, in order */

static bool fails(const char *name)
{
    size_t len = strlen(trace);

    snprintf(trace + len, sizeof(trace) - len, "%s ", name);
    if (++calls != fail_at)
        return false;
    errno = fail_errno;
    return true;
}

int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0600;

    if ((flags & O_TMPFILE) == O_TMPFILE) {
        if (no_unnamed) {
            errno = EOPNOTSUPP;
            return -1;
        }
        if (fails("open-unnamed"))
            return -1;
    }
    if ((flags & O_CREAT) != 0 && fails("open-named"))
        return -1;
    return syscall(SYS_openat, dir, path, flags, mode);
}

int fallocate(int fd, int mode, off_t offset, off_t count)
{
    if (no_fallocate) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return fails("allocate") ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, count);
}

ssize_t pwrite(int fd, const void *buf, size_t count, off_t offset)
{
    return fails("write") ? -1 : syscall(SYS_pwrite64, fd, buf, count, offset);
}

int fsync(int fd)
{
    struct stat st;

    fstat(fd, &st);
    if (fails(S_ISDIR(st.st_mode) ? "sync-directory" : "sync-file"))
        return -1;
    return syscall(SYS_fsync, fd);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    if (fails("link"))
        return -1;
    return syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (no_rename) {
        errno = EINVAL;
        return -1;
    }
    if (fails("rename"))
        return -1;
    return syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static int setup(void **state)
{
    (void)state;
    no_unnamed = no_rename = no_fallocate = false;
    calls = fail_at = 0;
    trace[0] = '\0';
    words_forget();
    return 0;
}

/* ---- tools ---- */

static int count_files(void)
{
    DIR *dir = opendir(disk);
    struct dirent *entry;
    int n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void opens_and_goes(const char *path, uint64_t ring_written)
{
    struct journal_file jf;

    assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
    assert_int_equal(jf.slots_valid, 2);
    assert_int_equal(jf.sb.ring_written, ring_written);
    journal_close(&jf);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(count_files(), 0);
}

/* ---- tests ---- */

/* Everything is durable before the name appears, and the name before anybody is told. */
static void order(void **state)
{
    const char *path = place_path(disk, "journal");

    (void)state;
    assert_int_equal(journal_create_file(path, MIB, false), 0);
    assert_string_equal(
        trace, "open-unnamed allocate write write write sync-file link sync-directory ");
    opens_and_goes(path, MIB - 131072);
}

static void order_with_names(void **state)
{
    const char *path = place_path(disk, "journal");

    (void)state;
    no_unnamed = true;
    assert_int_equal(journal_create_file(path, MIB, false), 0);
    assert_string_equal(
        trace, "open-named allocate write write write sync-file rename sync-directory ");
    opens_and_goes(path, MIB - 131072);

    setup(state);
    no_unnamed = no_rename = true;
    assert_int_equal(journal_create_file(path, MIB, false), 0);
    assert_string_equal(trace,
                        "open-named allocate write write write sync-file link sync-directory ");
    opens_and_goes(path, MIB - 131072);
}

static void leftover_of_a_crash(void **state)
{
    const char *path = place_path(disk, "journal"), *half = place_path(disk, "journal.new");
    int fd;

    (void)state;
    no_unnamed = true;
    place_file(disk, "journal.new", 77);
    assert_int_equal(journal_create_file(path, MIB, false), 0);
    opens_and_goes(path, MIB - 131072);

    /* Somebody is making it at this moment. */
    place_file(disk, "journal.new", 77);
    fd = open(half, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(journal_create_file(path, MIB, false), -EBUSY);
    assert_int_equal(words_count("error: can't create journal"), 1);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(half, F_OK), 0);
    close(fd);
    assert_int_equal(unlink(half), 0);

    /* Not through a link. */
    assert_int_equal(symlink(path, half), 0);
    assert_int_equal(journal_create_file(path, MIB, false), -ELOOP);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(unlink(half), 0);
    assert_int_equal(count_files(), 0);
}

static void without_allocation(void **state)
{
    const char *path = place_path(disk, "journal");

    (void)state;
    no_fallocate = true;
    assert_int_equal(journal_create_file(path, 20 * MIB + 100, false), 0);
    assert_int_equal(words_count("info: journal "), 1);
    assert_true(words_contain("can't allocate space in advance"));
    opens_and_goes(path, 20 * MIB - 131072);
}

/* Whichever call fails: one line, no journal, no leftover. */
static void every_failure(void **state)
{
    static const int errors[] = {EIO, ENOSPC, EACCES};
    const char *path = place_path(disk, "journal");

    (void)state;
    for (int named = 0; named < 2; named++) {
        for (int i = 0; i < 3; i++) {
            for (int at = 1; at <= 8; at++) {
                setup(state);
                no_unnamed = named;
                fail_at = at;
                fail_errno = errors[i];
                assert_int_equal(journal_create_file(path, MIB, false), -errors[i]);
                assert_int_equal(words_count("error:"), 1);
                assert_true(words_contain(path));
                assert_int_equal(count_files(), 0);
            }
        }
    }
    setup(state);
    fail_at = 2;
    fail_errno = ENOSPC;
    assert_int_equal(journal_create_file(path, MIB, false), -ENOSPC);
    assert_true(words_contain("bytes are free"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(order, setup),
        cmocka_unit_test_setup(order_with_names, setup),
        cmocka_unit_test_setup(leftover_of_a_crash, setup),
        cmocka_unit_test_setup(without_allocation, setup),
        cmocka_unit_test_setup(every_failure, setup),
    };

    words_begin();
    disk = place_make(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
