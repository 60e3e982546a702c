/* storage on regular files: bytes, zeroes, extents, cold reads, locks, refusals.
 *
 * The kernel's answers that no file system gives on demand (short transfers, interruptions,
 * missing fallocate) come from wrappers around the system calls in this file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"
#include "storage.h"
#include "words.h"

static const char *disk, *memory; /* two places: a file system with a disk, and tmpfs */

/* ---- the kernel, when it is difficult ---- */

static size_t piece_max;    /* pread and pwritev move no more than this at once; 0: no bound */
static int interrupt_every; /* every n-th call fails with EINTR; 0: none */
static int fallocate_errno; /* fallocate fails so; 0: it is the real one */
static int write_errno;     /* pwritev fails so, after writes_left more calls */
static int writes_left;
static int barrier_errno;
static unsigned calls, fallocates, writes, barriers;

static bool interrupted(void)
{
    if (interrupt_every == 0 || ++calls % interrupt_every != 0)
        return false;
    errno = EINTR;
    return true;
}

ssize_t pread(int fd, void *buf, size_t count, off_t offset)
{
    if (interrupted())
        return -1;
    if (piece_max != 0 && count > piece_max)
        count = piece_max;
    return syscall(SYS_pread64, fd, buf, count, offset);
}

ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
    struct iovec first = iov[0];

    if (interrupted())
        return -1;
    writes++;
    if (write_errno != 0 && writes_left-- == 0) {
        errno = write_errno;
        return -1;
    }
    if (piece_max == 0)
        return syscall(SYS_pwritev, fd, iov, count, offset, 0);
    if (first.iov_len > piece_max)
        first.iov_len = piece_max;
    return syscall(SYS_pwritev, fd, &first, 1, offset, 0);
}

int fallocate(int fd, int mode, off_t offset, off_t count)
{
    if (interrupted())
        return -1;
    fallocates++;
    if (fallocate_errno != 0) {
        errno = fallocate_errno;
        return -1;
    }
    return syscall(SYS_fallocate, fd, mode, offset, count);
}

int fdatasync(int fd)
{
    if (interrupted())
        return -1;
    barriers++;
    if (barrier_errno != 0) {
        errno = barrier_errno;
        return -1;
    }
    return syscall(SYS_fdatasync, fd);
}

static int setup(void **state)
{
    (void)state;
    piece_max = 0;
    interrupt_every = fallocate_errno = write_errno = writes_left = barrier_errno = 0;
    calls = fallocates = writes = barriers = 0;
    words_forget();
    return 0;
}

/* ---- tools ---- */

static struct storage *open_image(const char *path)
{
    struct storage *s;

    assert_int_equal(storage_open_file(&s, path, "image", false, false, true), 0);
    return s;
}

static int64_t size_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static int64_t allocated(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_blocks * 512;
}

static uint8_t noise(uint64_t i)
{
    return (i * 0x9e3779b97f4a7c15) >> 56 | 1; /* never 0 */
}

static void fill(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = noise(i);
}

/* ---- bytes ---- */

static void bytes_come_back(void **state)
{
    static uint8_t out[300000], in[300000];
    const char *path = place_file(disk, "bytes", sizeof(out));
    struct storage *s = open_image(path);
    struct iovec iov[40];
    size_t at = 0;

    (void)state;
    assert_int_equal(s->size, sizeof(out));
    assert_false(s->read_only);
    assert_false(s->is_block);
    assert_string_equal(s->name, path);
    fill(out, sizeof(out));
    for (int i = 0; i < 40; i++) { /* among them empty ones */
        iov[i].iov_base = out + at;
        iov[i].iov_len = i % 5 == 0 ? 0 : i == 39 ? sizeof(out) - at : (size_t)i * 37;
        at += iov[i].iov_len;
    }
    assert_int_equal(storage_writev(s, iov, 40, 0), 0);
    assert_int_equal(storage_read(s, in, sizeof(in), 0), 0);
    assert_memory_equal(in, out, sizeof(out));

    assert_int_equal(storage_write(s, "xyz", 3, 4095), 0);
    assert_int_equal(storage_read(s, in, 5, 4094), 0);
    assert_memory_equal(in + 1, "xyz", 3);
    assert_int_equal(in[0], noise(4094));
    assert_int_equal(in[4], noise(4098));
    assert_int_equal(storage_barrier(s), 0);
    assert_int_equal(storage_submit(s, 0, 65536), 0);
    storage_read_ahead(s, 0, 65536);
    storage_close(s);
    storage_close(NULL);
    unlink(path);
}

/* Short transfers and interruptions are nobody else's business. */
static void pieces_and_interruptions(void **state)
{
    static uint8_t out[30000], in[30000];
    static const size_t pieces[] = {1, 511, 512, 4095, 29999};
    struct storage *s = open_image(place_file(disk, "pieces", sizeof(out)));
    struct iovec iov[3] = {{out, 1000}, {out + 1000, 0}, {out + 1000, 29000}};

    (void)state;
    fill(out, sizeof(out));
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        piece_max = pieces[i];
        interrupt_every = 3;
        assert_int_equal(storage_zero(s, 0, s->size, true), 0);
        assert_int_equal(storage_writev(s, iov, 3, 0), 0);
        memset(in, 0, sizeof(in));
        assert_int_equal(storage_read(s, in, sizeof(in), 0), 0);
        assert_memory_equal(in, out, sizeof(out));
        for (int n = 0; n < 4; n++)
            assert_int_equal(storage_barrier(s), 0);
    }
    storage_close(s);
}

static void errors_are_returned(void **state)
{
    static uint8_t bytes[10000];
    struct storage *s = open_image(place_file(disk, "errors", sizeof(bytes)));

    (void)state;
    piece_max = 4096;
    write_errno = ENOSPC;
    writes_left = 2;
    assert_int_equal(storage_write(s, bytes, sizeof(bytes), 0), -ENOSPC);
    write_errno = 0;
    barrier_errno = EIO;
    assert_int_equal(storage_barrier(s), -EIO);
    assert_int_equal(barriers, 1); /* never tried again: the second one would succeed */
    fallocate_errno = ENOSPC;
    assert_int_equal(storage_zero(s, 0, 4096, false), -ENOSPC);
    assert_int_equal(storage_zero(s, 0, 4096, true), -ENOSPC);
    storage_close(s);
}

/* Somebody truncates a file in use: an error, and the file does not grow again. */
static void truncated_while_open(void **state)
{
    static uint8_t bytes[65536] __attribute__((aligned(4096)));
    const char *path = place_file(disk, "truncated", 65536);
    struct storage *s = open_image(path);

    (void)state;
    assert_int_equal(truncate(path, 10000), 0);
    assert_int_equal(storage_read(s, bytes, 1, 10000), -EIO);
    assert_int_equal(storage_read(s, bytes, 2, 9999), -EIO);
    assert_int_equal(storage_read(s, bytes, 1, 9999), 0);
    assert_int_equal(storage_write(s, bytes, 1, 10000), -EIO);
    assert_int_equal(storage_write(s, bytes, 65536, 0), -EIO);
    assert_int_equal(storage_write(s, bytes, 10000, 0), 0);
    assert_int_equal(storage_zero(s, 8192, 4096, true), -EIO);
    assert_int_equal(storage_zero(s, 8192, 4096, false), -EIO);
    assert_int_equal(storage_read_cold(s, bytes, 4096, 8192), -EIO);
    assert_int_equal(size_of(path), 10000);
    assert_int_equal(words_count("was truncated to 10000 bytes"), 1);
    storage_close(s);
}

/* ---- zeroes ---- */

static const uint64_t edges[] = {0, 1, 511, 512, 513, 4095, 4096, 4097, 65535, 65537, 131071};

static void zero_everywhere(const char *place, bool may_punch)
{
    static uint8_t model[200001], in[200001];
    const char *path = place_file(place, "zero", sizeof(model));
    struct storage *s = open_image(path);

    for (size_t i = 0; i < sizeof(edges) / sizeof(*edges); i++) {
        for (size_t j = 1; j < sizeof(edges) / sizeof(*edges); j++) {
            uint64_t from = edges[i], count = edges[j];

            if (from + count > sizeof(model))
                count = sizeof(model) - from;
            fill(model, sizeof(model));
            assert_int_equal(storage_write(s, model, sizeof(model), 0), 0);
            memset(model + from, 0, count);
            assert_int_equal(storage_zero(s, from, count, may_punch), 0);
            assert_int_equal(storage_read(s, in, sizeof(in), 0), 0);
            assert_memory_equal(in, model, sizeof(model));
            assert_int_equal(size_of(path), sizeof(model));
        }
    }
    storage_close(s);
    unlink(path);
}

static void zeroes_are_exact(void **state)
{
    (void)state;
    zero_everywhere(disk, true);
    zero_everywhere(disk, false);
    zero_everywhere(memory, true);
    zero_everywhere(memory, false);
}

static void zeroes_without_fallocate(void **state)
{
    static const int reasons[] = {EOPNOTSUPP, EINVAL, ENOSYS};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (int may_punch = 0; may_punch < 2; may_punch++) {
            fallocate_errno = reasons[i];
            fallocates = 0;
            words_forget();
            zero_everywhere(disk, may_punch);
            /* Each way was tried once, and said once. */
            assert_int_equal(fallocates, may_punch ? 2 : 1);
            assert_int_equal(words_count("zeroes are written instead"), 1);
        }
    }
}

static void holes_and_allocation(void **state)
{
    const char *places[] = {disk, memory};
    uint64_t size = 4 << 20;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *path = place_file(places[i], "holes", size);
        struct storage *s = open_image(path);
        uint8_t *bytes = calloc(1, size);

        memset(bytes, 1, size);
        assert_int_equal(storage_write(s, bytes, size, 0), 0);
        assert_int_equal(storage_barrier(s), 0);
        assert_true(allocated(path) >= (int64_t)size);
        assert_int_equal(storage_zero(s, 0, size, false), 0);
        assert_int_equal(storage_barrier(s), 0);
        assert_true(allocated(path) >= (int64_t)size);
        assert_int_equal(storage_zero(s, 4096, size - 8192, true), 0);
        assert_int_equal(storage_barrier(s), 0);
        assert_true(allocated(path) <= 65536);
        assert_int_equal(size_of(path), size);
        storage_close(s);
        unlink(path);
        free(bytes);
    }
}

/* The largest request there is, at the end of the largest image there is. */
static void zero_4_gib_at_the_end_of_all(void **state)
{
    const char *path = place_file(memory, "large", INT64_MAX);
    struct storage *s = open_image(path);
    uint64_t from = INT64_MAX - UINT32_MAX;
    uint8_t byte = 0x5a;

    (void)state;
    assert_int_equal(s->size, INT64_MAX);
    assert_int_equal(storage_write(s, &byte, 1, INT64_MAX - 1), 0);
    assert_int_equal(storage_write(s, &byte, 1, from), 0);
    assert_int_equal(storage_write(s, &byte, 1, from - 1), 0);
    assert_int_equal(storage_zero(s, from, UINT32_MAX, true), 0);
    assert_int_equal(storage_read(s, &byte, 1, INT64_MAX - 1), 0);
    assert_int_equal(byte, 0);
    assert_int_equal(storage_read(s, &byte, 1, from), 0);
    assert_int_equal(byte, 0);
    assert_int_equal(storage_read(s, &byte, 1, from - 1), 0);
    assert_int_equal(byte, 0x5a);
    assert_int_equal(size_of(path), INT64_MAX);
    storage_close(s);
    unlink(path);
}

/* ---- extents ---- */

static void extents(void **state)
{
    static uint8_t bytes[65536];
    const char *places[] = {disk, memory};

    (void)state;
    fill(bytes, sizeof(bytes));
    for (int i = 0; i < 2; i++) {
        struct storage *s = open_image(place_file(places[i], "extents", (1 << 20) + 5));
        enum storage_extent_kind kind;
        uint64_t count;

        assert_int_equal(storage_write(s, bytes, 65536, 262144), 0);
        assert_int_equal(storage_write(s, bytes, 5, 1 << 20), 0);
        assert_int_equal(storage_extent(s, 0, &kind, &count), 0);
        assert_int_equal(kind, STORAGE_HOLE);
        assert_int_equal(count, 262144);
        assert_int_equal(storage_extent(s, 262143, &kind, &count), 0);
        assert_int_equal(kind, STORAGE_HOLE);
        assert_int_equal(count, 1);
        assert_int_equal(storage_extent(s, 262144, &kind, &count), 0);
        assert_int_equal(kind, STORAGE_DATA);
        assert_int_equal(count, 65536);
        assert_int_equal(storage_extent(s, 262144 + 65536, &kind, &count), 0);
        assert_int_equal(kind, STORAGE_HOLE);
        assert_int_equal(count, (1 << 20) - 262144 - 65536);
        assert_int_equal(storage_extent(s, (1 << 20) + 1, &kind, &count), 0);
        assert_int_equal(kind, STORAGE_DATA);
        assert_int_equal(count, 4);
        assert_int_equal(storage_zero(s, 0, s->size, true), 0);
        assert_int_equal(storage_extent(s, 1, &kind, &count), 0);
        assert_int_equal(kind, STORAGE_HOLE);
        assert_true(count >= (1 << 20) - 1);
        storage_close(s);
    }
}

/* ---- cold reads ---- */

static void cold_reads(void **state)
{
    const char *places[] = {disk, memory};
    size_t size = 100000; /* not aligned: the last piece is shorter */
    uint8_t *out = malloc(size), *in;

    (void)state;
    fill(out, size);
    in = aligned_alloc(4096, 102400);
    for (int i = 0; i < 2; i++) {
        struct storage *s = open_image(place_file(places[i], "cold", size));

        assert_int_equal(storage_write(s, out, size, 0), 0); /* dirty: not on the disk yet */
        interrupt_every = 2;
        assert_int_equal(storage_read_cold(s, in, size, 0), 0);
        assert_memory_equal(in, out, size);
        assert_int_equal(storage_read_cold(s, in, 8192, 4096), 0);
        assert_memory_equal(in, out + 4096, 8192);
        assert_int_equal(storage_read_cold(s, in, size - 98304, 98304), 0);
        assert_memory_equal(in, out + 98304, size - 98304);
        interrupt_every = 0;
        storage_close(s);
    }
    free(out);
    free(in);
}

/* ---- locks ---- */

/* A child that opens the file exclusively and holds it until it is killed. */
static pid_t holder_start(const char *path)
{
    int ready[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct storage *s;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "holder-of-it");
        byte = storage_open_file(&s, path, "image", false, false, true) == 0;
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void in_use_elsewhere(void **state)
{
    const char *path = place_file(disk, "shared", 4096);
    const char *other = place_path(disk, "shared-too");
    struct storage *s, *t;
    char text[64];
    pid_t pid = holder_start(path);

    (void)state;
    snprintf(text, sizeof(text), "is in use by holder-of-it (pid %d)", (int)pid);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(storage_open_file(&s, other, "image", false, true, true), -EBUSY);
    assert_int_equal(words_count(text), 1);
    assert_int_equal(words_count("error:"), 1);

    /* Looking is allowed, and sees that it is in use. */
    assert_int_equal(storage_open_file(&t, path, "image", true, false, false), 0);
    assert_true(t->read_only);
    assert_true(storage_in_use(t));

    /* Stopped is alive. */
    kill(pid, SIGSTOP);
    assert_int_equal(storage_open_file(&s, path, "image", false, true, true), -EBUSY);
    assert_int_equal(words_count(text), 2);

    /* kill -9 leaves nothing to clean up; not even waiting for its end. */
    kill(pid, SIGKILL);
    s = open_image(path);
    waitpid(pid, NULL, 0);
    storage_close(s);
    assert_false(storage_in_use(t));
    storage_close(t);
}

/* Looking at a file must never make a server that starts at that moment give up. */
static void looking_disturbs_nobody(void **state)
{
    const char *path = place_file(disk, "looked-at", 4096);
    int ready[2];
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct storage *s;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (storage_open_file(&s, path, "image", true, false, false) != 0)
            _exit(1);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            storage_in_use(s);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int i = 0; i < 20; i++)
        storage_close(open_image(path));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

static void in_use_here(void **state)
{
    const char *path = place_file(disk, "twice", 4096);
    struct storage *s = open_image(path), *t;

    (void)state;
    assert_false(storage_in_use(s)); /* by us is no answer, and the lock stays */
    assert_int_equal(storage_open_file(&t, path, "journal", false, true, true), -EBUSY);
    assert_true(words_contain("image and journal must be different files"));
    storage_close(s);
    storage_close(open_image(path));
}

static void same_file(void **state)
{
    const char *path = place_file(disk, "same", 4096);
    const char *hard = place_path(disk, "same-hard"), *soft = place_path(disk, "same-soft");
    const char *other = place_file(disk, "same-not", 4096);
    struct storage *a, *b, *c, *d;

    (void)state;
    assert_int_equal(link(path, hard), 0);
    assert_int_equal(symlink(path, soft), 0);
    assert_int_equal(storage_open_file(&a, path, "image", false, false, false), 0);
    assert_int_equal(storage_open_file(&b, hard, "image", false, false, false), 0);
    assert_int_equal(storage_open_file(&c, soft, "image", false, false, false), 0);
    assert_int_equal(storage_open_file(&d, other, "image", false, false, false), 0);
    assert_true(storage_same(a, a));
    assert_true(storage_same(a, b));
    assert_true(storage_same(a, c));
    assert_false(storage_same(a, d));
    storage_close(a);
    storage_close(b);
    storage_close(c);
    storage_close(d);
}

/* ---- refusals ---- */

static void refused(const char *path, const char *role, int error, const char *words)
{
    struct storage *s;

    words_forget();
    assert_int_equal(storage_open_file(&s, path, role, false, true, true), error);
    assert_int_equal(words_count("error:"), 1);
    assert_true(words_contain(path));
    assert_true(words_contain(words));
}

static void refusals(void **state)
{
    const char *fifo = place_path(disk, "fifo"), *socket_path = place_path(disk, "socket");
    const char *loop = place_path(disk, "loop");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    strncpy(address.sun_path, socket_path, sizeof(address.sun_path) - 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink(loop, loop), 0);

    refused(place_path(disk, "nothing"), "image", -ENOENT, "truncate -s SIZE");
    refused(place_path(disk, "nothing"), "journal", -ENOENT, "can't open journal");
    refused(disk, "image", -EINVAL, "is a directory");
    refused(fifo, "image", -EINVAL, "is a pipe");
    refused(socket_path, "journal", -EINVAL, "is a socket");
    refused("/dev/null", "image", -EINVAL, "is a character device");
    refused(place_file(disk, "empty", 0), "image", -EINVAL, "truncate -s SIZE");
    refused(place_file(disk, "empty", 0), "journal", -EINVAL, "nbdjournal create");
    refused(loop, "image", -ELOOP, "symbolic links");
}

/* Not permitted to write: read-only if the caller likes that, else refused. */
static void read_only_when_not_permitted(void **state)
{
    const char *path = place_file(disk, "read-only", 4096);
    pid_t pid;
    int status;

    (void)state;
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(disk, 0755), 0);
    pid = fork();
    if (pid == 0) {
        struct storage *s;

        if (geteuid() == 0 && setresuid(65534, 65534, 65534) == -1)
            _exit(1);
        if (storage_open_file(&s, path, "image", false, false, true) != -EACCES ||
            !words_contain("for writing: Permission denied"))
            _exit(2);
        if (storage_open_file(&s, path, "image", false, true, true) != 0 || !s->read_only)
            _exit(3);
        storage_close(s);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bytes_come_back, setup),
        cmocka_unit_test_setup(pieces_and_interruptions, setup),
        cmocka_unit_test_setup(errors_are_returned, setup),
        cmocka_unit_test_setup(truncated_while_open, setup),
        cmocka_unit_test_setup(zeroes_are_exact, setup),
        cmocka_unit_test_setup(zeroes_without_fallocate, setup),
        cmocka_unit_test_setup(holes_and_allocation, setup),
        cmocka_unit_test_setup(zero_4_gib_at_the_end_of_all, setup),
        cmocka_unit_test_setup(extents, setup),
        cmocka_unit_test_setup(cold_reads, setup),
        cmocka_unit_test_setup(in_use_elsewhere, setup),
        cmocka_unit_test_setup(looking_disturbs_nobody, setup),
        cmocka_unit_test_setup(in_use_here, setup),
        cmocka_unit_test_setup(same_file, setup),
        cmocka_unit_test_setup(refusals, setup),
        cmocka_unit_test_setup(read_only_when_not_permitted, setup),
    };

    words_begin();
    disk = place_make(NULL);
    memory = place_make("/dev/shm");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
