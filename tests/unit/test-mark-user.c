/* The server changed its user after it opened the image, and may not touch its attributes: it
 * goes on without a mark if there was none, but an old one must not stay (identity.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attach.h"
#include "place.h"
#include "words.h"

static const char *path;
static const struct image_mark mark = {.epoch = 1, .journal_path = "/x"};

/* Opens as root, then marks as another user; true if that ended as wanted. */
static bool mark_as_nobody(int want, const char *words)
{
    struct storage *s;
    int status;
    pid_t pid;

    assert_int_equal(storage_open_file(&s, path, "image", false, false, true), 0);
    pid = fork();
    if (pid == 0) {
        bool supported = true;

        if (setresuid(65534, 65534, 65534) == -1)
            _exit(1);
        _exit(image_mark_write(s, &mark, &supported) == want && !supported &&
                      words_contain(words)
                  ? 0
                  : 1);
    }
    waitpid(pid, &status, 0);
    storage_close(s);
    return status == 0;
}

static void without_a_mark(void **state)
{
    (void)state;
    assert_true(mark_as_nobody(0, "info: image "));
    assert_true(mark_as_nobody(0, "can't be marked by this user"));
}

static void with_an_old_mark(void **state)
{
    struct storage *s;
    bool supported;

    (void)state;
    assert_int_equal(storage_open_file(&s, path, "image", false, false, true), 0);
    assert_int_equal(image_mark_write(s, &mark, &supported), 0);
    assert_true(supported);
    storage_close(s);
    assert_true(mark_as_nobody(-EACCES, "can't renew the mark"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_mark),
        cmocka_unit_test(with_an_old_mark),
    };

    words_begin();
    if (geteuid() != 0) {
        printf("skip: only root can change users\n");
        return 77;
    }
    path = place_file(place_make(NULL), "image", 4096);
    if (setxattr(path, "user.probe", "x", 1, 0) == -1) {
        printf("skip: no user attributes on %s\n", path);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
