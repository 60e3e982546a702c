/* faulty, the test double: it fails when it was told to, and only then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "faulty.h"
#include "place.h"
#include "words.h"

static const char *disk;

static struct storage *open_faulty(void)
{
    struct storage *inner, *s;

    assert_int_equal(
        storage_open_file(&inner, place_file(disk, "f", 65536), "image", false, false, true),
        0);
    s = faulty_create(inner, true);
    assert_non_null(s);
    assert_int_equal(s->fd, inner->fd);
    assert_int_equal(s->size, 65536);
    return s;
}

static void fails_once(void **state)
{
    struct storage *s = open_faulty();
    char byte;

    (void)state;
    faulty_fail(s, FAULTY_BARRIER, 2, EIO, false);
    assert_int_equal(storage_barrier(s), 0);
    assert_int_equal(storage_barrier(s), -EIO);
    assert_int_equal(storage_barrier(s), 0);
    assert_int_equal(faulty_calls(s, FAULTY_BARRIER), 3);
    assert_int_equal(storage_write(s, "x", 1, 5), 0);
    assert_int_equal(storage_read(s, &byte, 1, 5), 0);
    assert_int_equal(byte, 'x');
    storage_close(s);
}

static void fails_for_ever(void **state)
{
    static char page[4096] __attribute__((aligned(4096)));
    enum storage_extent_kind kind;
    uint64_t count;
    struct storage *s = open_faulty();

    (void)state;
    for (int op = 0; op < FAULTY_OPS; op++)
        faulty_fail(s, op, 1, ENOSPC, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(storage_read(s, page, 1, 0), -ENOSPC);
        assert_int_equal(storage_read_cold(s, page, 4096, 0), -ENOSPC);
        assert_int_equal(storage_write(s, "x", 1, 0), -ENOSPC);
        assert_int_equal(storage_zero(s, 0, 1, true), -ENOSPC);
        assert_int_equal(storage_barrier(s), -ENOSPC);
        assert_int_equal(storage_submit(s, 0, 1), -ENOSPC);
        assert_int_equal(storage_extent(s, 0, &kind, &count), -ENOSPC);
    }
    for (int op = 0; op < FAULTY_OPS; op++) {
        assert_int_equal(faulty_calls(s, op), 2);
        faulty_heal(s, op);
    }
    assert_int_equal(storage_read(s, page, 1, 0), 0);
    assert_int_equal(page[0], 0); /* nothing was written */
    assert_int_equal(storage_zero(s, 0, 1, true), 0);
    assert_int_equal(storage_extent(s, 0, &kind, &count), 0);
    storage_close(s);
}

static void writes_partly(void **state)
{
    struct storage *s = open_faulty();
    struct iovec iov[2] = {{"abcd", 4}, {"efgh", 4}};
    char bytes[8];

    (void)state;
    faulty_write_partly(s, 1, 6, EIO);
    assert_int_equal(storage_writev(s, iov, 2, 0), -EIO);
    assert_int_equal(storage_read(s, bytes, 8, 0), 0);
    assert_memory_equal(bytes, "abcdef\0\0", 8);
    assert_int_equal(storage_writev(s, iov, 2, 0), 0);
    storage_close(s);
}

struct seen {
    enum faulty_op op[8];
    int count;
};

static void see(void *opaque, enum faulty_op op, uint64_t offset, uint64_t count)
{
    struct seen *seen = opaque;

    assert_true(op == FAULTY_BARRIER ? offset == 0 && count == 0 : offset == 512 && count == 3);
    seen->op[seen->count++] = op;
}

static void watches(void **state)
{
    struct storage *s = open_faulty();
    struct seen seen = {.count = 0};

    (void)state;
    faulty_watch(s, see, &seen);
    assert_int_equal(storage_write(s, "xyz", 3, 512), 0);
    faulty_skip_barriers(s, true);
    assert_int_equal(storage_barrier(s), 0);
    assert_int_equal(storage_submit(s, 512, 3), 0);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.op[0], FAULTY_WRITE);
    assert_int_equal(seen.op[1], FAULTY_BARRIER);
    assert_int_equal(seen.op[2], FAULTY_SUBMIT);
    storage_close(s);
}

static void *flush(void *s)
{
    return (void *)(intptr_t)storage_barrier(s);
}

static void blocks(void **state)
{
    struct storage *s = open_faulty();
    pthread_t threads[2];
    void *result;

    (void)state;
    faulty_block(s, FAULTY_BARRIER);
    faulty_fail(s, FAULTY_BARRIER, 1, EIO, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, flush, s), 0);
    faulty_wait_blocked(s, FAULTY_BARRIER, 2);
    assert_int_equal(storage_write(s, "x", 1, 0), 0); /* only barriers wait */
    faulty_release(s, FAULTY_BARRIER);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_int_equal((intptr_t)result, -EIO);
    }
    storage_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fails_once),    cmocka_unit_test(fails_for_ever),
        cmocka_unit_test(writes_partly), cmocka_unit_test(watches),
        cmocka_unit_test(blocks),
    };

    words_begin();
    disk = place_make(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
