/* attach on block devices: journals on them, and what images on them are recognised by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach.h"
#include "loop.h"
#include "place.h"
#include "words.h"

#define MIB (UINT64_C(1) << 20)

static const char *disk;

static int attach(struct loop *loop, const char *file)
{
    const char *why;
    int fd;

    words_forget();
    assert_true(loop_attach(loop, file, 512, false, &fd, &why));
    return fd;
}

static void opens(const char *path, uint64_t ring_bytes)
{
    struct journal_file jf;

    assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
    assert_int_equal(jf.slots_valid, 2);
    assert_int_equal(jf.sb.ring_bytes, ring_bytes);
    assert_int_equal(jf.sb.ring_written, ring_bytes);
    journal_close(&jf);
}

static void journal_on_a_device(void **state)
{
    struct loop loop;
    int fd = attach(&loop, place_file(disk, "journal", 4 * MIB));
    char link_path[512];

    (void)state;
    assert_int_equal(journal_create_file(loop.path, 4 * MIB + 1, false), -EINVAL);
    assert_true(words_contain("it has 4194304"));
    words_forget();
    assert_int_equal(journal_create_file(loop.path, MIB - 1, false), -EINVAL);
    assert_true(words_contain("the least is"));
    words_forget();

    assert_int_equal(journal_create_file(loop.path, 0, false), 0);
    opens(loop.path, 4 * MIB - 131072);
    assert_int_equal(journal_create_file(loop.path, 2 * MIB, false), -EEXIST);
    assert_true(words_contain("a journal is in the way"));
    assert_true(words_contain("--force"));
    opens(loop.path, 4 * MIB - 131072);
    assert_int_equal(journal_create_file(loop.path, 2 * MIB, true), 0);
    opens(loop.path, 2 * MIB - 131072);

    /* As /dev/disk/by-id/... leads to it. */
    snprintf(link_path, sizeof(link_path), "%s", place_path(disk, "link-to-device"));
    assert_int_equal(symlink(loop.path, link_path), 0);
    assert_int_equal(journal_create_file(link_path, MIB, true), 0);
    opens(link_path, MIB - 131072);
    close(fd);
}

static void device_with_something_on_it(void **state)
{
    static const uint64_t places[] = {0, 510, 1024, 4086, 65600, 131071};
    struct loop loop;
    int fd = attach(&loop, place_file(disk, "used", 2 * MIB));

    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        words_forget();
        assert_int_equal(pwrite(fd, "x", 1, places[i]), 1);
        assert_int_equal(journal_create_file(loop.path, 0, false), -EEXIST);
        assert_true(words_contain("what it holds is in the way"));
        assert_int_equal(pwrite(fd, "", 1, places[i]), 1);
    }
    assert_int_equal(pwrite(fd, "x", 1, 131072), 1);
    assert_int_equal(journal_create_file(loop.path, 0, false), 0);
    close(fd);
}

static void identify(const char *path, struct image_entry *entry)
{
    struct storage *s;

    assert_int_equal(storage_open_file(&s, path, "image", false, false, true), 0);
    assert_int_equal(image_identify(s, entry), 0);
    storage_close(s);
}

/* The same disk under another number is the same disk, another one under this number is not. */
static void device_is_recognised(void **state)
{
    char first[512], second[512];
    struct loop a, b, c;
    struct image_entry on_a, on_b, on_c, before;
    struct journal_file jf = {.sb.epoch = 1, .sb.image_count = 1, .sb.images = &before};
    const struct image_entry *known;
    struct image_mark none = {.present = false};
    struct storage *s;
    bool supported = true;
    int fd_a, fd_b, fd_c;

    (void)state;
    snprintf(first, sizeof(first), "%s", place_file(disk, "disk-1", MIB));
    snprintf(second, sizeof(second), "%s", place_file(disk, "disk-2", MIB));
    fd_a = attach(&a, first);
    fd_b = attach(&b, first);
    fd_c = attach(&c, second);
    identify(a.path, &on_a);
    identify(b.path, &on_b);
    identify(c.path, &on_c);
    assert_int_equal(on_a.kind, IMAGE_BLOCK);
    assert_int_equal(on_a.size, MIB);
    assert_int_not_equal(on_a.fsid, 0);
    assert_int_equal(on_a.fsid, on_b.fsid);
    assert_int_not_equal(on_a.inode, on_b.inode);
    assert_int_not_equal(on_a.fsid, on_c.fsid);

    before = on_a;
    assert_int_equal(storage_open_file(&s, c.path, "image", false, false, true), 0);
    jf.storage = s; /* only its name is used */
    assert_int_equal(image_mark_write(s, &none, &supported), 0);
    assert_false(supported);
    assert_int_equal(image_compare(&jf, false, s, &none, &on_b, &known), MATCH_KNOWN);
    on_c.inode = on_a.inode;
    assert_int_equal(image_compare(&jf, false, s, &none, &on_c, &known), MATCH_REFUSED);
    assert_true(words_contain("data waits in journal"));
    assert_int_equal(image_compare(&jf, true, s, &none, &on_c, &known), MATCH_CLEAN);
    on_b.size++;
    assert_int_equal(image_compare(&jf, false, s, &none, &on_b, &known), MATCH_REFUSED);

    /* Devices without identity: the number counts. */
    before.fsid = on_c.fsid = 0;
    assert_int_equal(image_compare(&jf, false, s, &none, &on_c, &known), MATCH_KNOWN);
    on_c.inode++;
    assert_int_equal(image_compare(&jf, false, s, &none, &on_c, &known), MATCH_REFUSED);
    storage_close(s);
    close(fd_a);
    close(fd_b);
    close(fd_c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journal_on_a_device),
        cmocka_unit_test(device_with_something_on_it),
        cmocka_unit_test(device_is_recognised),
    };
    struct loop loop;
    const char *why;
    int fd;

    words_begin();
    disk = place_make(NULL);
    if (!loop_attach(&loop, place_file(disk, "probe", MIB), 512, false, &fd, &why)) {
        printf("skip: %s\n", why);
        return 77;
    }
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
