/* Every allocation fails once: of an engine that opens, starts, serves and stops, with one image, with
 * one that a dead server left, and with a folder.
 *
 * The linker sends each call of malloc and its like, of a thread and of a mapping here
 * (meson.build).  A run whose n-th call fails may say so in any operation, but it says it with an
 * error, the same operation then succeeds (at the latest after a restart), nothing is lost that was
 * answered, and nothing is left behind: no lock, no mark that refuses the next start.
 */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"
#include "served.h"

#define DISK (256u << 10)
#define JOURNAL (1u << 20)
#define OPS 48

/* ---- what fails ---- */

static atomic_bool counting;
static atomic_ulong calls, fails_at; /* 0: none */

static bool now_fails(void)
{
    if (!atomic_load(&counting) || atomic_fetch_add(&calls, 1) + 1 != atomic_load(&fails_at))
        return false;
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return now_fails() ? NULL : __real_malloc(bytes);
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return now_fails() ? NULL : __real_calloc(count, bytes);
}

void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes)
{
    return now_fails() ? NULL : __real_realloc(old, bytes);
}

void *__real_reallocarray(void *old, size_t count, size_t bytes);
void *__wrap_reallocarray(void *old, size_t count, size_t bytes);
void *__wrap_reallocarray(void *old, size_t count, size_t bytes)
{
    return now_fails() ? NULL : __real_reallocarray(old, count, bytes);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return now_fails() ? NULL : __real_strdup(text);
}

int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    return now_fails() ? ENOMEM : __real_posix_memalign(out, alignment, bytes);
}

int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **out, const char *format, ...)
{
    va_list args;
    int r;

    if (now_fails())
        return -1;
    va_start(args, format);
    r = vasprintf(out, format, args);
    va_end(args);
    return r;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument)
{
    return now_fails() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return now_fails() ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    return now_fails() ? NULL : __real_opendir(path);
}

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd)
{
    return now_fails() ? NULL : __real_fdopendir(fd);
}

/* ---- what is done ---- */

struct session {
    struct engine_config config;
    const char *disk_name;
    struct engine *e;
    struct engine_disk *d;
    uint8_t model[DISK];
};

static bool struck(void)
{
    return atomic_load(&fails_at) != 0 && atomic_load(&calls) >= atomic_load(&fails_at);
}

/* An operation may fail when its turn came, and not for another reason. */
#define MAY_FAIL(r) CHECK((r) == 0 || struck())

static void open_engine(struct session *s)
{
    int r = engine_open(&s->e, &s->config);

    MAY_FAIL(r);
    if (r != 0)
        r = engine_open(&s->e, &s->config); /* it left nothing behind */
    CHECK(r == 0);
}

/* Opens, starts, and makes it writable; again from the start if that failed. */
static void serve(struct session *s)
{
    int r;

    for (int attempt = 0;; attempt++) {
        CHECK(attempt < 3);
        open_engine(s);
        r = engine_start(s->e);
        MAY_FAIL(r);
        if (r == 0) {
            r = engine_disk_open(s->e, s->disk_name, false, &s->d);
            MAY_FAIL(r);
            if (r != 0) /* who comes next */
                r = engine_disk_open(s->e, s->disk_name, false, &s->d);
            if (r == 0)
                return;
            CHECK(attempt == 0);
            engine_stop(s->e, 60);
        }
        engine_close(s->e);
    }
}

static int extents_seen(void *opaque, uint64_t offset, uint64_t length, enum engine_extent kind)
{
    (void)offset, (void)kind;
    *(uint64_t *)opaque += length;
    return 0;
}

static int request(struct session *s, unsigned i)
{
    uint64_t offset = (uint64_t)i * 5003, seen = 0;
    uint8_t bytes[3000], buf[DISK];

    memset(bytes, 1 + i, sizeof(bytes));
    switch (i % 8) {
    case 4:
        memset(s->model + offset, 0, sizeof(bytes));
        return engine_zero(s->d, sizeof(bytes), offset, true, false, NULL);
    case 5:
        memset(s->model + offset, 0, sizeof(bytes));
        return engine_trim(s->d, sizeof(bytes), offset, i % 3 == 0, NULL);
    case 6:
        return engine_flush(s->d, NULL);
    case 7: /* more pieces than a read has room for at first */
        return i % 16 == 7 ? engine_extents(s->d, DISK, 0, extents_seen, &seen)
                           : engine_read(s->d, buf, DISK, 0);
    default:
        memcpy(s->model + offset, bytes, sizeof(bytes));
        return engine_write(s->d, bytes, sizeof(bytes), offset, i % 3 == 0, NULL);
    }
}

static void read_all(struct session *s)
{
    uint8_t *buf = malloc(DISK);
    int r;

    CHECK(buf != NULL);
    r = engine_read(s->d, buf, DISK, 0);
    MAY_FAIL(r);
    if (r != 0)
        r = engine_read(s->d, buf, DISK, 0);
    CHECK(r == 0 && memcmp(buf, s->model, DISK) == 0);
    free(buf);
}

/* The n-th call fails, 0: none.  Returns how many there were. */
static unsigned long run(struct session *s, unsigned long n)
{
    int r;

    atomic_store(&calls, 0);
    atomic_store(&fails_at, n);
    atomic_store(&counting, true);
    serve(s);
    for (unsigned i = 0; i < OPS; i++) {
        r = request(s, i);
        MAY_FAIL(r);
        if (r != 0)
            r = request(s, i);
        CHECK(r == 0);
    }
    atomic_store(&counting, false); /* our own buffer */
    read_all(s);
    atomic_store(&counting, true);
    engine_disk_close(s->d);
    r = engine_stop(s->e, 60);
    MAY_FAIL(r);
    engine_close(s->e);
    atomic_store(&counting, false);

    /* Whatever failed: the next server has it all. */
    atomic_store(&fails_at, 0);
    serve(s);
    read_all(s);
    engine_disk_close(s->d);
    served_stop(s->e);
    return atomic_load(&calls);
}

/* ---- where it is done ---- */

static void fill(const char *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && ftruncate(fd, DISK) == 0);
    close(fd);
}

/* A new folder for each run. */
static void make(struct session *s, bool in_folder, unsigned long n)
{
    static char folder[600], image[700], other[700], journal[700];
    static const char *place;

    if (place == NULL)
        place = place_make(NULL);
    snprintf(folder, sizeof(folder), "%s/%c%lu", place, in_folder ? 'd' : 'f', n);
    CHECK(mkdir(folder, 0700) == 0 || errno == EEXIST);
    snprintf(image, sizeof(image), "%s/disk", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    snprintf(journal, sizeof(journal), in_folder ? "%s/.journal" : "%s/disk.journal", folder);
    unlink(image);
    unlink(other);
    unlink(journal);
    fill(image);
    if (in_folder)
        fill(other);
    *s = (struct session){
        .disk_name = in_folder ? "disk" : "",
        .config = {.image_path = in_folder ? NULL : image,
                   .dir_path = in_folder ? folder : NULL,
                   .journal_path = journal,
                   .journal_size = JOURNAL,
                   .recover = ENGINE_RECOVER_YES,
                   .commit_interval_s = 3600,
                   .memory_bytes = 4u << 20},
    };
}

/* A server that was killed with a map that takes some memory to rebuild. */
static void leave_dirty(struct session *s)
{
    int status;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        serve(s);
        for (unsigned i = 0; i < OPS; i++)
            CHECK(request(s, i) == 0);
        kill(getpid(), SIGKILL);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (unsigned i = 0; i < OPS; i++) { /* what it wrote: the model is in its memory */
        uint64_t offset = (uint64_t)i * 5003;

        if (i % 8 < 4)
            memset(s->model + offset, 1 + i, 3000);
        else if (i % 8 < 6)
            memset(s->model + offset, 0, 3000);
    }
}

static void each_once(bool in_folder, bool dirty)
{
    static struct session s;
    unsigned long count = 1;

    for (unsigned long n = 0; n <= count; n++) {
        make(&s, in_folder, n);
        if (dirty)
            leave_dirty(&s);
        if (n == 0)
            count = run(&s, 0);
        else
            run(&s, n);
        words_forget();
        drop_staging(s.config.journal_path);
    }
    print_message("each of %lu allocations has failed once\n", count);
    assert_true(count > 25);
}

static void test_new(void **state)
{
    (void)state;
    each_once(false, false);
}

static void test_recovery(void **state)
{
    (void)state;
    each_once(false, true);
}

static void test_folder(void **state)
{
    (void)state;
    each_once(true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new),
        cmocka_unit_test(test_recovery),
        cmocka_unit_test(test_folder),
    };

    words_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
