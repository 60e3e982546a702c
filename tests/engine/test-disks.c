/* Many disks of a folder and one journal. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "place.h"
#include "served.h"

#define DISKS 40 /* more than stay open when nobody uses them */
#define BYTES 65536u
#define ROUNDS 20

static char folder[512], journal[600];
static struct engine_config config;
static bool has_marks;

static const char *path_of(unsigned number)
{
    static _Thread_local char path[600];

    snprintf(path, sizeof(path), "%s/disk%u", folder, number);
    return path;
}

static const char *name_of(unsigned number)
{
    return strrchr(path_of(number), '/') + 1;
}

static void make_image(unsigned number)
{
    int fd = open(path_of(number), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
    has_marks = fsetxattr(fd, "user.nbdkit.test", "x", 1, 0) == 0;
    close(fd);
}

static int setup(void **state)
{
    (void)state;
    words_begin();
    snprintf(folder, sizeof(folder), "%s", place_path(place_make(NULL), "folder"));
    CHECK(mkdir(folder, 0700) == 0);
    snprintf(journal, sizeof(journal), "%s/.journal", folder);
    for (unsigned i = 0; i < DISKS; i++)
        make_image(i);
    config = (struct engine_config){
        .dir_path = folder,
        .journal_size = 1 << 20,
        .recover = ENGINE_RECOVER_YES,
        .commit_interval_s = 3600,
        .memory_bytes = 64u << 20,
    };
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    drop_staging(journal);
    unlink(journal);
    for (unsigned i = 0; i <= DISKS; i++)
        unlink(path_of(i));
    return rmdir(folder);
}

static struct engine *serve(void)
{
    struct engine *e;

    CHECK(engine_open(&e, &config) == 0);
    CHECK(engine_start(e) == 0);
    return e;
}

static struct engine_disk *disk_open(struct engine *e, unsigned number)
{
    struct engine_disk *d;

    CHECK(engine_disk_open(e, name_of(number), false, &d) == 0);
    CHECK(engine_disk_size(d) == BYTES);
    return d;
}

static void write_all(struct engine_disk *d, uint8_t byte)
{
    uint8_t buf[BYTES];

    memset(buf, byte, BYTES);
    CHECK(engine_write(d, buf, BYTES, 0, false, NULL) == 0);
}

/* Far from what makes a commit due by itself. */
static void write_some(struct engine_disk *d)
{
    CHECK(engine_write(d, "some", 4, 0, false, NULL) == 0);
}

static void check_all(struct engine_disk *d, uint8_t byte)
{
    uint8_t buf[BYTES];

    CHECK(engine_read(d, buf, BYTES, 0) == 0);
    for (unsigned i = 0; i < BYTES; i++)
        CHECK(buf[i] == byte);
}

static void check_file(unsigned number, uint8_t byte)
{
    uint8_t model[BYTES];

    memset(model, byte, BYTES);
    assert_file(path_of(number), model, BYTES);
}

static bool is_marked(unsigned number)
{
    return getxattr(path_of(number), "user.nbdkit.journal", NULL, 0) > 0;
}

static unsigned descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

/* One after the other: what nobody uses is closed again, and is there again when somebody comes. */
static void test_come_and_go(void **state)
{
    struct engine *e = serve();
    unsigned before;

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < DISKS; i++) {
            struct engine_disk *d = disk_open(e, i);
            if (round > 0)
                check_all(d, i + round);
            write_all(d, i + round + 1);
            engine_disk_close(d);
        }
    }
    served_stop(e);
    for (unsigned i = 0; i < DISKS; i++) {
        check_file(i, i + 3);
        assert_false(is_marked(i));
    }
    assert_true(words_contain("stopped, drained: the images in"));

    /* Readers leave nothing behind, and few descriptors. */
    e = serve();
    before = descriptors();
    for (unsigned i = 0; i < DISKS; i++) {
        struct engine_disk *d;
        assert_int_equal(engine_disk_open(e, name_of(i), true, &d), 0);
        check_all(d, i + 3);
        assert_int_equal(engine_write(d, "x", 1, 0, false, NULL), -EROFS);
        engine_disk_close(d);
    }
    assert_in_range(descriptors() - before, 1, 16);
    served_stop(e);
}

struct client {
    struct engine *e;
    unsigned number;
};

/* Each connects again and again, with a flush each time: opening, joining, closing, commits and
 * checkpoints at the same time. */
static void *use_disk(void *arg)
{
    struct client *c = arg;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct engine_disk *d = disk_open(c->e, c->number);
        if (round > 0)
            check_all(d, c->number + round);
        write_all(d, c->number + round + 1);
        CHECK(engine_flush(d, NULL) == 0);
        engine_disk_close(d);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct engine *e = serve();
    struct client clients[DISKS];
    pthread_t threads[DISKS];
    struct core_stats stats;

    (void)state;
    for (unsigned i = 0; i < DISKS; i++) {
        clients[i] = (struct client){e, i};
        assert_int_equal(pthread_create(&threads[i], NULL, use_disk, &clients[i]), 0);
    }
    for (unsigned i = 0; i < DISKS; i++)
        pthread_join(threads[i], NULL);
    engine_stats_get(e, &stats);
    assert_in_range(stats.checkpoints, 1, UINT64_MAX); /* the journal is small */
    served_stop(e);
    for (unsigned i = 0; i < DISKS; i++)
        check_file(i, i + ROUNDS);
}

/* A flush of a disk that wrote nothing needs no commit, whatever the others did. */
static void test_flush_is_of_one_disk(void **state)
{
    struct engine *e = serve();
    struct engine_disk *a = disk_open(e, 0), *b = disk_open(e, 1);
    struct core_stats before, after;

    (void)state;
    write_some(a);
    engine_stats_get(e, &before);
    assert_int_equal(engine_flush(b, NULL), 0);
    engine_stats_get(e, &after);
    assert_int_equal(after.commits, before.commits);
    assert_int_equal(after.empty_flushes, before.empty_flushes + 1);
    write_some(b);
    assert_int_equal(engine_flush(b, NULL), 0);
    assert_int_equal(engine_flush(a, NULL), 0); /* carried along */
    engine_stats_get(e, &after);
    assert_int_equal(after.commits, before.commits + 1);
    engine_disk_close(a);
    engine_disk_close(b);
    served_stop(e);
}

/* Data of a life before waits for a disk that no client of this life opens, through several
 * epochs: it goes home at the end, and its old mark is accepted. */
static void test_older_epochs(void **state)
{
    struct engine *e = serve();
    struct engine_disk *d = disk_open(e, 0);

    (void)state;
    write_all(d, 'a');
    assert_int_equal(engine_stop(e, 0), 1); /* leaves it in the journal */
    engine_close(e);
    for (int life = 0; life < 3; life++) {
        e = serve();
        write_all(disk_open(e, 1), 'b' + life);
        assert_int_equal(engine_stop(e, 0), 1);
        engine_close(e);
    }
    check_file(0, 0);
    if (has_marks)
        assert_true(is_marked(0));
    e = serve();
    write_all(disk_open(e, 2), 'c');
    served_stop(e);
    check_file(0, 'a');
    check_file(1, 'd');
    check_file(2, 'c');
    for (int i = 0; i < 3; i++)
        assert_false(is_marked(i));
}

/* The file of a disk is replaced: refused while data waits for the one before, else a new disk. */
static void test_replaced(void **state)
{
    struct engine *e = serve();
    struct engine_disk *d = disk_open(e, 0);
    char aside[700];

    (void)state;
    snprintf(aside, sizeof(aside), "%s.aside", path_of(0));
    write_all(d, 'a');
    assert_int_equal(rename(path_of(0), aside), 0);
    make_image(0);
    assert_int_equal(engine_disk_open(e, name_of(0), false, &d), -EBUSY); /* in use */
    engine_disk_close(d);
    assert_int_equal(engine_disk_open(e, name_of(0), false, &d), -EBUSY); /* not home */
    assert_int_equal(engine_stop(e, 0), 1);
    engine_close(e);

    e = serve();
    assert_int_equal(engine_disk_open(e, name_of(0), false, &d), -EINVAL);
    assert_true(words_contain("data waits in journal"));
    write_all(disk_open(e, 1), 'b');
    served_stop(e); /* found under its other name */
    check_file(0, 0);
    check_file(1, 'b');
    assert_int_equal(rename(aside, path_of(0)), 0);
    check_file(0, 'a');
}

/* More images than the journal's table has room for, though not in one life. */
static void test_table_full(void **state)
{
    static struct superblock sb;
    struct engine_disk *d;
    struct engine *e;
    unsigned room, number = 0;

    (void)state;
    format_super_init(&sb, (const uint8_t[FORMAT_UUID_BYTES]){1}, FORMAT_JOURNAL_MIN, 0);
    room = format_images_max(&sb);
    for (unsigned i = DISKS; i < room + 10; i++)
        make_image(i);
    e = serve();
    for (; number < room; number++) {
        d = disk_open(e, number);
        if (number == 0)
            write_all(d, 'a');
        engine_disk_close(d);
    }
    assert_int_equal(engine_disk_open(e, name_of(number), false, &d), -ENOSPC);
    assert_true(words_contain("its table of images is full until a clean stop"));
    served_stop(e);

    e = serve();
    for (; number < room + 10; number++) {
        d = disk_open(e, number);
        write_all(d, 'b');
        engine_disk_close(d);
    }
    d = disk_open(e, 0);
    check_all(d, 'a');
    engine_disk_close(d);
    served_stop(e);
    check_file(room + 9, 'b');
    for (unsigned i = DISKS + 1; i < room + 10; i++)
        unlink(path_of(i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flush_is_of_one_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_older_epochs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_table_full, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
