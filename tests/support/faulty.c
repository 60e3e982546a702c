/* faulty: see faulty.h. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "faulty.h"

struct rule {
    unsigned long left; /* calls until it fails; 0: no rule */
    int error;
    bool for_ever;
    size_t bytes; /* WRITE: these are written all the same */
};

struct faulty {
    struct storage storage; /* first */
    struct storage *inner;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned long calls[FAULTY_OPS]; /* [lock] */
    struct rule rules[FAULTY_OPS];   /* [lock] */
    bool blocked[FAULTY_OPS];        /* [lock] */
    unsigned waiting[FAULTY_OPS];    /* [lock] */
    bool skip_barriers;              /* [lock] */
    void (*watch)(void *opaque, enum faulty_op op, uint64_t offset, uint64_t count);
    void *opaque;
};

static const struct storage_ops ops;

static struct faulty *of(struct storage *s)
{
    assert(s->ops == &ops);
    return (struct faulty *)s;
}

/* What each call begins with: 0 or the error that it must return; *bytes as in the rule. */
static int enter(struct storage *s, enum faulty_op op, uint64_t offset, uint64_t count,
                 size_t *bytes)
{
    struct faulty *f = of(s);
    struct rule *rule = &f->rules[op];
    int e = 0;

    if (f->watch != NULL)
        f->watch(f->opaque, op, offset, count);
    *bytes = 0;
    pthread_mutex_lock(&f->lock);
    f->calls[op]++;
    if (rule->left == 1) {
        e = -rule->error;
        *bytes = rule->bytes;
    }
    if (rule->left > 1 || (rule->left == 1 && !rule->for_ever))
        rule->left--;
    f->waiting[op]++;
    pthread_cond_broadcast(&f->changed);
    while (f->blocked[op])
        pthread_cond_wait(&f->changed, &f->lock);
    f->waiting[op]--;
    pthread_mutex_unlock(&f->lock);
    return e;
}

static int faulty_read(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    size_t bytes;
    int e = enter(s, FAULTY_READ, offset, count, &bytes);

    return e < 0 ? e : storage_read(of(s)->inner, buf, count, offset);
}

static int faulty_read_cold(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    size_t bytes;
    int e = enter(s, FAULTY_READ_COLD, offset, count, &bytes);

    return e < 0 ? e : storage_read_cold(of(s)->inner, buf, count, offset);
}

static int faulty_write(struct storage *s, const struct iovec *iov, int iov_count,
                        uint64_t offset)
{
    uint64_t count = 0;
    size_t bytes;
    int e;

    for (int i = 0; i < iov_count; i++)
        count += iov[i].iov_len;
    e = enter(s, FAULTY_WRITE, offset, count, &bytes);
    if (e == 0)
        return storage_writev(of(s)->inner, iov, iov_count, offset);
    for (int i = 0; i < iov_count && bytes > 0; i++) {
        size_t part = iov[i].iov_len < bytes ? iov[i].iov_len : bytes;
        int inner = storage_write(of(s)->inner, iov[i].iov_base, part, offset);

        if (inner < 0)
            return inner;
        offset += part;
        bytes -= part;
    }
    return e;
}

static int faulty_zero(struct storage *s, uint64_t offset, uint64_t count, bool may_punch)
{
    size_t bytes;
    int e = enter(s, FAULTY_ZERO, offset, count, &bytes);

    return e < 0 ? e : storage_zero(of(s)->inner, offset, count, may_punch);
}

static int faulty_barrier(struct storage *s)
{
    struct faulty *f = of(s);
    size_t bytes;
    int e = enter(s, FAULTY_BARRIER, 0, 0, &bytes);
    bool skip;

    pthread_mutex_lock(&f->lock);
    skip = f->skip_barriers;
    pthread_mutex_unlock(&f->lock);
    return e < 0 || skip ? e : storage_barrier(f->inner);
}

static int faulty_submit(struct storage *s, uint64_t offset, uint64_t count)
{
    size_t bytes;
    int e = enter(s, FAULTY_SUBMIT, offset, count, &bytes);

    return e < 0 ? e : storage_submit(of(s)->inner, offset, count);
}

static void faulty_read_ahead(struct storage *s, uint64_t offset, uint64_t count)
{
    storage_read_ahead(of(s)->inner, offset, count);
}

static int faulty_extent(struct storage *s, uint64_t offset, enum storage_extent_kind *kind,
                         uint64_t *count)
{
    size_t bytes;
    int e = enter(s, FAULTY_EXTENT, offset, 0, &bytes);

    return e < 0 ? e : storage_extent(of(s)->inner, offset, kind, count);
}

static void faulty_close(struct storage *s)
{
    struct faulty *f = of(s);

    storage_close(f->inner);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static const struct storage_ops ops = {
    .read = faulty_read,
    .read_cold = faulty_read_cold,
    .write = faulty_write,
    .zero = faulty_zero,
    .barrier = faulty_barrier,
    .submit = faulty_submit,
    .read_ahead = faulty_read_ahead,
    .extent = faulty_extent,
    .close = faulty_close,
};

struct storage *faulty_create(struct storage *inner, bool with_fd)
{
    struct faulty *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return NULL;
    f->storage = *inner;
    f->storage.ops = &ops;
    if (!with_fd)
        f->storage.fd = f->storage.direct_fd = -1;
    f->inner = inner;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    return &f->storage;
}

/* ---- rules ---- */

unsigned long faulty_calls(struct storage *s, enum faulty_op op)
{
    struct faulty *f = of(s);
    unsigned long calls;

    pthread_mutex_lock(&f->lock);
    calls = f->calls[op];
    pthread_mutex_unlock(&f->lock);
    return calls;
}

static void set_rule(struct storage *s, enum faulty_op op, struct rule rule)
{
    struct faulty *f = of(s);

    pthread_mutex_lock(&f->lock);
    f->rules[op] = rule;
    pthread_mutex_unlock(&f->lock);
}

void faulty_fail(struct storage *s, enum faulty_op op, unsigned long nth, int error,
                 bool for_ever)
{
    set_rule(s, op, (struct rule){.left = nth, .error = error, .for_ever = for_ever});
}

void faulty_write_partly(struct storage *s, unsigned long nth, size_t bytes, int error)
{
    set_rule(s, FAULTY_WRITE, (struct rule){.left = nth, .error = error, .bytes = bytes});
}

void faulty_heal(struct storage *s, enum faulty_op op)
{
    set_rule(s, op, (struct rule){.left = 0});
}

void faulty_skip_barriers(struct storage *s, bool skip)
{
    struct faulty *f = of(s);

    pthread_mutex_lock(&f->lock);
    f->skip_barriers = skip;
    pthread_mutex_unlock(&f->lock);
}

static void set_blocked(struct storage *s, enum faulty_op op, bool blocked)
{
    struct faulty *f = of(s);

    pthread_mutex_lock(&f->lock);
    f->blocked[op] = blocked;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

void faulty_block(struct storage *s, enum faulty_op op)
{
    set_blocked(s, op, true);
}

void faulty_release(struct storage *s, enum faulty_op op)
{
    set_blocked(s, op, false);
}

void faulty_wait_blocked(struct storage *s, enum faulty_op op, unsigned n)
{
    struct faulty *f = of(s);

    pthread_mutex_lock(&f->lock);
    while (!f->blocked[op] || f->waiting[op] < n)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

void faulty_watch(struct storage *s,
                  void (*watch)(void *opaque, enum faulty_op op, uint64_t offset,
                                uint64_t count),
                  void *opaque)
{
    of(s)->watch = watch;
    of(s)->opaque = opaque;
}
