/* lock: mutex and conditions with clang's thread-safety annotations, and the clock that the
 * conditions use.
 *
 * The annotations are compiled away by gcc.  clang -Wthread-safety checks that what is GUARDED
 * is touched only with the lock, and that a function that REQUIRES_LOCK is called with it.
 *
 * LOCK_SCOPE(&e->lock) holds the lock to the end of the function, by the cleanup attribute: no
 * return can forget it.  clang 14 does not see cleanup functions, so the scope *asserts* to it
 * that the lock is held from there on: use it where the scope is the rest of the function,
 * never in an inner block.  Where a function drops and retakes a lock, it does so with
 * lock_release and lock_acquire, which clang follows.
 *
 * Conditions wait by CLOCK_MONOTONIC: a jump of the wall clock neither stalls nor hurries them.
 *
 * Who waits for a condition needs the lock again before it goes on: many that are woken at once
 * queue for it, and each hand-over is two more calls of the kernel.  An event is for sleepers
 * that need no lock any more when they are woken.
 */
#ifndef JOURNAL_LOCK_H
#define JOURNAL_LOCK_H

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__
#define LOCK_ANNOTATION(x) __attribute__((x))
#else
#define LOCK_ANNOTATION(x)
#endif

struct LOCK_ANNOTATION(capability("mutex")) lock {
    pthread_mutex_t mutex;
};

/* Stands for the lock in annotations, and exists nowhere else.  C's attributes can't name
 * another member of the same struct, so GUARDED can't say whose lock; there is one lock in the
 * house, so it need not. */
extern struct lock the_lock;
#define GUARDED LOCK_ANNOTATION(guarded_by(the_lock))
#define REQUIRES_LOCK LOCK_ANNOTATION(requires_capability(the_lock))
#define RELEASES_LOCK LOCK_ANNOTATION(release_capability(the_lock))
#define EXCLUDES_LOCK LOCK_ANNOTATION(locks_excluded(the_lock))
/* For the lock's own functions, and for code that runs before other threads exist or after they
 * ended. */
#define LOCK_UNCHECKED LOCK_ANNOTATION(no_thread_safety_analysis)

struct condition {
    pthread_cond_t cond;
};

/* Adaptive: the lock is held for a microsecond, so a thread that finds it taken spins a little
 * before it sleeps.  Reads of eight clients on two processors, in interleaved rounds: 70,000 a
 * second against 47,000 with a mutex that sleeps at once. */
static inline void lock_init(struct lock *l)
{
    pthread_mutexattr_t attributes;
    int r = pthread_mutexattr_init(&attributes);
    assert(r == 0);
    r = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    assert(r == 0);
    r = pthread_mutex_init(&l->mutex, &attributes);
    assert(r == 0);
    (void)r;
    pthread_mutexattr_destroy(&attributes);
}

static inline void lock_destroy(struct lock *l)
{
    pthread_mutex_destroy(&l->mutex);
}

static inline void lock_acquire(struct lock *l)
    LOCK_ANNOTATION(acquire_capability(the_lock)) LOCK_UNCHECKED
{
    int r = pthread_mutex_lock(&l->mutex);
    assert(r == 0);
    (void)r;
}

static inline void lock_release(struct lock *l)
    LOCK_ANNOTATION(release_capability(the_lock)) LOCK_UNCHECKED
{
    int r = pthread_mutex_unlock(&l->mutex);
    assert(r == 0);
    (void)r;
}

static inline struct lock *lock_scope_begin(struct lock *l)
    LOCK_ANNOTATION(assert_capability(the_lock)) LOCK_UNCHECKED
{
    lock_acquire(l);
    return l;
}

static inline void lock_scope_end(struct lock **scope) LOCK_UNCHECKED
{
    lock_release(*scope);
}

#define LOCK_SCOPE(l)                                                          \
    struct lock *lock_scope __attribute__((cleanup(lock_scope_end), unused)) = \
        lock_scope_begin(l)

static inline void condition_init(struct condition *c)
{
    pthread_condattr_t attributes;
    int r = pthread_condattr_init(&attributes);
    assert(r == 0);
    r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    assert(r == 0);
    r = pthread_cond_init(&c->cond, &attributes);
    assert(r == 0);
    (void)r;
    pthread_condattr_destroy(&attributes);
}

static inline void condition_destroy(struct condition *c)
{
    pthread_cond_destroy(&c->cond);
}

static inline void condition_wait(struct condition *c, struct lock *l) REQUIRES_LOCK
{
    int r = pthread_cond_wait(&c->cond, &l->mutex);
    assert(r == 0);
    (void)r;
}

/* False when the time (clock_now_ns) is over. */
static inline bool condition_wait_until(struct condition *c, struct lock *l,
                                        uint64_t deadline_ns) REQUIRES_LOCK
{
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / 1000000000),
        .tv_nsec = (long)(deadline_ns % 1000000000),
    };
    int r = pthread_cond_timedwait(&c->cond, &l->mutex, &deadline);
    assert(r == 0 || r == ETIMEDOUT);
    return r == 0;
}

static inline void condition_signal(struct condition *c)
{
    pthread_cond_signal(&c->cond);
}

static inline void condition_broadcast(struct condition *c)
{
    pthread_cond_broadcast(&c->cond);
}

/* Counts what has happened; a futex.  All but event_wait needs the lock. */
struct event {
    _Atomic uint32_t count;
    bool awaited; /* somebody may sleep: else nobody need be woken */
};

/* Announces event_wait; what one waits for is looked at before, and the lock dropped after. */
static inline uint32_t event_enter(struct event *event) REQUIRES_LOCK
{
    event->awaited = true;
    return atomic_load(&event->count);
}

/* Sleeps until something has happened since event_enter, or for no reason. */
static inline void event_wait(struct event *event, uint32_t entered)
{
    syscall(SYS_futex, &event->count, FUTEX_WAIT_PRIVATE, entered, NULL, NULL, 0);
}

static inline void event_wake_one(struct event *event) REQUIRES_LOCK
{
    if (!event->awaited)
        return;
    atomic_fetch_add(&event->count, 1);
    syscall(SYS_futex, &event->count, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline void event_wake_all(struct event *event) REQUIRES_LOCK
{
    if (!event->awaited)
        return;
    event->awaited = false;
    atomic_fetch_add(&event->count, 1);
    syscall(SYS_futex, &event->count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Wall clock, for people only: no decision looks at it. */
static inline uint64_t clock_wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

#endif
