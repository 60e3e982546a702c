/* Schedules chosen by seed: in each round four clients with few requests each, against the
 * committer, the checkpoint and each other, and one or two threads that are held up at a place
 * that the seed says: an acquisition or release of the lock, a wait, a call of the kernel. Every
 * byte that is read must be legal (P7, tests/support/legal.h), and after each round the disk is
 * what was answered.
 *
 * What waits where is the seed's choice, what goes on meanwhile the kernel's: a seed that failed
 * will fail again soon, not at once.  Barriers are not carried out here: this is about threads.
 *
 *   JOURNAL_TEST_SEED=N, JOURNAL_TEST_ROUNDS=N: another run, or more of it.
 *   test-engine-schedules N: with planted bug N, and good if that is found.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "legal.h"
#include "planted.h"
#include "served.h"

#define CLIENTS 4
#define DISK 50000 /* no multiple of a sector */
#define JOURNAL (1u << 20)
#define LIFE 50 /* rounds from an engine's start to its stop */
#define LARGEST 9000
#ifdef __SANITIZE_THREAD__
#define ROUNDS 10000
#else
#define ROUNDS 100000
#endif

int planted_bug; /* journal/planted/planted.h */

/* ---- holding up ---- */

#define THREADS 8 /* that can be told apart: the clients, then the engine's as they come */

struct hold {
    atomic_uint thread, countdown; /* at its so-manyth place from now on */
    atomic_uint us;
};

static struct hold holds[2];
static atomic_uint others = CLIENTS; /* the next number of a thread that is no client */
static _Thread_local unsigned self;  /* 0: no number yet; from 1 on */
static atomic_ullong held;

static void maybe_wait(void)
{
    if (self == 0)
        self = 1 + atomic_fetch_add(&others, 1) % THREADS;
    for (unsigned i = 0; i < sizeof(holds) / sizeof(holds[0]); i++) {
        if (atomic_load(&holds[i].thread) != self || atomic_load(&holds[i].countdown) == 0 ||
            atomic_fetch_sub(&holds[i].countdown, 1) != 1)
            continue;
        atomic_fetch_add(&held, 1);
        usleep(atomic_load(&holds[i].us));
    }
}

/* The linker puts these around the real ones. */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    maybe_wait();
    return __real_pthread_mutex_lock(mutex);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int r = __real_pthread_mutex_unlock(mutex);

    maybe_wait();
    return r;
}

ssize_t __real_pread64(int fd, void *buf, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *buf, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *buf, size_t count, off_t offset)
{
    ssize_t r;

    maybe_wait();
    r = __real_pread64(fd, buf, count, offset);
    maybe_wait();
    return r;
}

ssize_t __real_pwrite64(int fd, const void *buf, size_t count, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t count, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t count, off_t offset)
{
    maybe_wait();
    return __real_pwrite64(fd, buf, count, offset);
}

ssize_t __real_pwritev64(int fd, const struct iovec *iov, int count, off_t offset);
ssize_t __wrap_pwritev64(int fd, const struct iovec *iov, int count, off_t offset);
ssize_t __wrap_pwritev64(int fd, const struct iovec *iov, int count, off_t offset)
{
    maybe_wait();
    return __real_pwritev64(fd, iov, count, offset);
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    (void)fd;
    maybe_wait();
    return 0;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return __wrap_fdatasync(fd);
}

/* ---- clients ---- */

struct world {
    struct engine *e;
    uint64_t seed, round, content;
    bool done;
    pthread_mutex_t lock; /* legal, content */
    struct legal *legal;
    pthread_barrier_t begin, end;
};

struct client {
    struct world *world;
    unsigned number;
    pthread_t thread;
    struct engine_disk *disk;
    struct engine_client who;
    uint8_t bytes[LARGEST];
};

static uint64_t below(uint64_t *seed, uint64_t bound)
{
    return random_next(seed) % bound;
}

static struct legal_change *sent(struct world *w, uint64_t offset, uint32_t length,
                                 uint8_t *bytes)
{
    struct legal_change *change;
    uint64_t content = 0;

    __real_pthread_mutex_lock(&w->lock);
    if (bytes != NULL)
        content = ++w->content;
    change = legal_sent(w->legal, offset, length, content, false);
    __real_pthread_mutex_unlock(&w->lock);
    if (bytes != NULL)
        legal_bytes(content, offset, bytes, length);
    return change;
}

static void answered(struct world *w, struct legal_change *change)
{
    __real_pthread_mutex_lock(&w->lock);
    legal_answered(w->legal, change);
    __real_pthread_mutex_unlock(&w->lock);
}

static void read_some(struct client *c, uint64_t offset, uint32_t length)
{
    struct world *w = c->world;
    uint64_t stamp;

    __real_pthread_mutex_lock(&w->lock);
    stamp = legal_read_sent(w->legal);
    __real_pthread_mutex_unlock(&w->lock);
    CHECK(engine_read(c->disk, c->bytes, length, offset) == 0);
    __real_pthread_mutex_lock(&w->lock);
    CHECK(legal_read_answered(w->legal, stamp, offset, c->bytes, length));
    __real_pthread_mutex_unlock(&w->lock);
}

static void request(struct client *c, uint64_t *seed)
{
    /* Few places, so that they meet. */
    uint64_t offset = below(seed, 2) ? below(seed, 8) * 3000 : below(seed, DISK);
    uint32_t length = below(seed, 3) ? 3000 : 1 + below(seed, LARGEST);
    bool fua = below(seed, 4) == 0;
    struct legal_change *change;

    if (length > DISK - offset)
        length = DISK - offset;
    switch (below(seed, 10)) {
    case 0:
    case 1:
    case 2:
        read_some(c, offset, length);
        break;
    case 3:
        CHECK(engine_flush(c->disk, &c->who) == 0);
        break;
    case 4:
        change = sent(c->world, offset, length, NULL);
        CHECK(engine_zero(c->disk, length, offset, below(seed, 2), fua, &c->who) == 0);
        answered(c->world, change);
        break;
    case 5: /* a new connection */
        engine_disconnect(c->world->e, &c->who);
        engine_disk_close(c->disk);
        c->who.connection += CLIENTS;
        CHECK(engine_disk_open(c->world->e, "", false, &c->disk) == 0);
        break;
    default:
        change = sent(c->world, offset, length, c->bytes);
        CHECK(engine_write(c->disk, c->bytes, length, offset, fua, &c->who) == 0);
        answered(c->world, change);
        break;
    }
}

static void *client_main(void *arg)
{
    struct client *c = arg;
    struct world *w = c->world;

    self = 1 + c->number;
    for (;;) {
        uint64_t seed;

        pthread_barrier_wait(&w->begin);
        if (w->done)
            return NULL;
        seed = w->seed * 1000003 + w->round * CLIENTS + c->number;
        for (uint64_t n = 1 + below(&seed, 4); n > 0; n--)
            request(c, &seed);
        pthread_barrier_wait(&w->end);
    }
}

/* ---- rounds ---- */

static void choose_holds(uint64_t *seed)
{
    for (unsigned i = 0; i < sizeof(holds) / sizeof(holds[0]); i++) {
        atomic_store(&holds[i].countdown, 0);
        atomic_store(&holds[i].thread, 1 + below(seed, THREADS - 1));
        atomic_store(&holds[i].us, below(seed, 32) ? 20 + below(seed, 100) : 2000);
        atomic_store(&holds[i].countdown, 1 + below(seed, 16));
    }
}

static void check_disk(struct world *w)
{
    static uint8_t bytes[DISK];

    CHECK(engine_read(served_disk(w->e), bytes, DISK, 0) == 0);
    legal_crashed(w->legal); /* nothing is in flight */
    CHECK(legal_found(w->legal, bytes));
}

static void check_file(struct world *w, const char *path)
{
    size_t count;
    uint8_t *bytes = file_bytes(path, &count);

    CHECK(count == DISK && legal_found(w->legal, bytes));
    free(bytes);
}

static void live(struct world *w, struct client *clients, struct files *files, uint64_t rounds)
{
    uint64_t seed = w->seed + w->round;

    alarm(planted_bug != 0 ? 5 : 60); /* ends a hang */
    files->config.bypass_bytes = below(&seed, 2) ? 4096 : 0;
    atomic_store(&others, CLIENTS);
    w->e = files_serve(files);
    for (unsigned i = 0; i < CLIENTS; i++) {
        CHECK(engine_disk_open(w->e, "", false, &clients[i].disk) == 0);
        clients[i].who = (struct engine_client){.client = i / 2, .connection = i};
    }
    for (uint64_t n = 0; n < rounds; n++, w->round++) {
        choose_holds(&seed);
        pthread_barrier_wait(&w->begin);
        pthread_barrier_wait(&w->end);
        if (n % 10 == 9)
            check_disk(w);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        engine_disconnect(w->e, &clients[i].who);
        engine_disk_close(clients[i].disk);
    }
    served_stop(w->e);
    check_file(w, files->image);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

static void test_schedules(void **state)
{
    uint64_t rounds = number_from("JOURNAL_TEST_ROUNDS", ROUNDS);
    struct client *clients = calloc(CLIENTS, sizeof(*clients));
    struct world w = {.seed = number_from("JOURNAL_TEST_SEED", 1),
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .legal = legal_create(DISK)};

    self = THREADS; /* the main thread is never held up among the clients */
    printf("JOURNAL_TEST_SEED=%llu\n", (unsigned long long)w.seed);
    fflush(stdout);
    CHECK(pthread_barrier_init(&w.begin, NULL, CLIENTS + 1) == 0);
    CHECK(pthread_barrier_init(&w.end, NULL, CLIENTS + 1) == 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i].world = &w;
        clients[i].number = i;
        CHECK(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) == 0);
    }
    while (w.round < rounds)
        live(&w, clients, *state, rounds - w.round < LIFE ? rounds - w.round : LIFE);
    w.done = true;
    pthread_barrier_wait(&w.begin);
    for (unsigned i = 0; i < CLIENTS; i++)
        pthread_join(clients[i].thread, NULL);
    printf("%llu schedules, %llu times a thread was held up\n", (unsigned long long)w.round,
           (unsigned long long)held);
    assert_true(held > w.round / 4);
    legal_destroy(w.legal);
    free(clients);
}

static int setup(void **state)
{
    return files_make(state, DISK, JOURNAL);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_schedules, setup, files_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* True: the planted bug ended a run of its own, or hung it. */
static bool is_found(int bug)
{
    void *state;
    int status;
    pid_t pid;

    CHECK(setup(&state) == 0);
    pid = fork();
    if (pid == 0) {
        planted_bug = bug;
        test_schedules(&state);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    files_drop(&state);
    return WIFSIGNALED(status);
}

int main(int argc, char *argv[])
{
    if (argc > 1)
        return is_found(atoi(argv[1])) ? 0 : 1;
    return run();
}
