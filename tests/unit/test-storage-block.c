/* storage on block devices: loop devices with sectors of 512 and 4096 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop.h"
#include "place.h"
#include "storage.h"
#include "words.h"

#define SIZE (1u << 20)

static const char *disk;
static const unsigned sectors[] = {512, 4096};

static void attach(struct loop *loop, int *fd, const char *name, unsigned sector,
                   bool read_only)
{
    const char *why;

    assert_true(loop_attach(loop, place_file(disk, name, SIZE), sector, read_only, fd, &why));
}

static void bytes_and_zeroes(void **state)
{
    static const uint64_t edges[] = {0,    1,    511,  512,   513,       4095,
                                     4096, 4097, 8192, 65537, SIZE - 513};
    uint8_t *model = malloc(SIZE), *in = aligned_alloc(4096, SIZE);

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct loop loop;
        struct storage *s;
        enum storage_extent_kind kind;
        uint64_t count;
        int fd;

        attach(&loop, &fd, "bytes", sectors[i], false);
        assert_int_equal(storage_open_file(&s, loop.path, "image", false, false, true), 0);
        assert_true(s->is_block);
        assert_int_equal(s->size, SIZE);
        assert_int_equal(s->block_bytes, sectors[i]);
        for (size_t n = 0; n < 2 * 11 * 11; n++) {
            uint64_t from = edges[n / 2 / 11], length = edges[n / 2 % 11];

            if (length > SIZE - from)
                length = SIZE - from;
            memset(model, (int)n | 1, SIZE);
            assert_int_equal(storage_write(s, model, SIZE, 0), 0);
            memset(model + from, 0, length);
            assert_int_equal(storage_zero(s, from, length, n % 2), 0);
            if (n % 16 == 0)
                assert_int_equal(storage_read_cold(s, in, SIZE, 0), 0);
            else
                assert_int_equal(storage_read(s, in, SIZE, 0), 0);
            assert_memory_equal(in, model, SIZE);
        }
        assert_int_equal(storage_write(s, "xyz", 3, SIZE - 3), 0);
        assert_int_equal(storage_barrier(s), 0);
        assert_int_equal(storage_extent(s, 5, &kind, &count), 0);
        assert_int_equal(kind, STORAGE_DATA);
        assert_int_equal(count, SIZE - 5);
        assert_int_not_equal(storage_write(s, "xyz", 3, SIZE - 1), 0);
        storage_close(s);
        close(fd);
    }
    free(model);
    free(in);
}

/* A second node of the same device is no way around the lock. */
static void another_node_of_the_device(void **state)
{
    const char *node = place_path(disk, "node");
    struct loop loop;
    struct storage *s, *t, *u;
    struct stat st;
    int fd, status;
    pid_t pid;

    (void)state;
    attach(&loop, &fd, "node-file", 512, false);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(mknod(node, S_IFBLK | 0600, st.st_rdev), 0);
    assert_int_equal(storage_open_file(&s, loop.path, "image", false, false, true), 0);
    assert_int_equal(storage_open_file(&t, node, "image", false, false, false), 0);
    assert_true(storage_same(s, t));
    storage_close(t);

    words_forget();
    assert_int_equal(storage_open_file(&u, node, "journal", false, true, true), -EBUSY);
    assert_true(words_contain("image and journal must be different devices"));
    words_forget();
    pid = fork();
    if (pid == 0) {
        char text[64];

        /* Only the parent counts. */
        snprintf(text, sizeof(text), "(pid %d)", (int)getppid());
        close(s->fd);
        close(fd);
        _exit(storage_open_file(&u, node, "image", false, true, true) == -EBUSY &&
                      words_contain(text)
                  ? 0
                  : 1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    storage_close(s);
    close(fd);
}

/* Killed, and started again at once: the dead one's claim may take a moment to go. */
static void killed_and_started_again(void **state)
{
    struct loop loop;
    struct storage *s;
    int fd, ready[2];
    char byte;

    (void)state;
    attach(&loop, &fd, "killed-file", 512, false);
    for (int i = 0; i < 10; i++) {
        pid_t pid;

        assert_int_equal(pipe(ready), 0);
        pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (storage_open_file(&s, loop.path, "image", false, true, true) == 0 &&
                write(ready[1], "x", 1) == 1)
                pause();
            _exit(1);
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        kill(pid, SIGKILL);
        assert_int_equal(storage_open_file(&s, loop.path, "image", false, true, true), 0);
        storage_close(s);
        waitpid(pid, NULL, 0);
        close(ready[0]);
    }
    close(fd);
}

static void mounted(void **state)
{
    const char *where = place_path(disk, "mount point");
    struct loop loop;
    struct storage *s;
    char command[600];
    int fd;

    (void)state;
    attach(&loop, &fd, "mounted-file", 512, false);
    snprintf(command, sizeof(command), "mkfs.ext4 -q -O ^has_journal %s", loop.path);
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(where, 0700), 0);
    assert_int_equal(mount(loop.path, where, "ext4", 0, NULL), 0);
    words_forget();
    assert_int_equal(storage_open_file(&s, loop.path, "image", false, true, true), -EBUSY);
    assert_int_equal(umount(where), 0);
    assert_true(words_contain("mount point: unmount it first"));
    close(fd);
}

static void read_only_device(void **state)
{
    struct loop loop;
    struct storage *s;
    int fd;

    (void)state;
    attach(&loop, &fd, "read-only", 512, true);
    words_forget();
    assert_int_equal(storage_open_file(&s, loop.path, "image", false, false, true), -EROFS);
    assert_true(words_contain("for writing"));
    assert_int_equal(storage_open_file(&s, loop.path, "image", false, true, true), 0);
    assert_true(s->read_only);
    storage_close(s);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_zeroes),
        cmocka_unit_test(another_node_of_the_device),
        cmocka_unit_test(killed_and_started_again),
        cmocka_unit_test(mounted),
        cmocka_unit_test(read_only_device),
    };
    struct loop loop;
    const char *why;
    int fd;

    words_begin();
    disk = place_make(NULL);
    if (!loop_attach(&loop, place_file(disk, "probe", SIZE), 512, false, &fd, &why)) {
        printf("skip: %s\n", why);
        return 77;
    }
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
