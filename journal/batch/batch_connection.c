/* batch_connection: the table of connections: who was answered when, and has not come back yet.
 *
 * A fixed number of places.  A connection takes one with its first flush; when all are taken,
 * the place of the one that is silent longest, and what was remembered of that is lost.  A
 * connection with flushes pending or in flight keeps its place.
 *
 * An NBD client may have many flushes outstanding on one connection, and nothing tells which
 * answer led to which later flush.  They are paired in order, oldest answer first.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "batch_state.h"

int batch_connections_create(struct batch *b, uint32_t count)
{
    uint32_t buckets = 1;

    while (buckets < 2 * count)
        buckets *= 2;
    b->connections = calloc(count, sizeof(*b->connections));
    b->buckets = calloc(buckets, sizeof(*b->buckets));
    if (b->connections == NULL || b->buckets == NULL)
        return -ENOMEM; /* batch_connections_destroy frees the other */
    b->connection_count = count;
    b->bucket_mask = buckets - 1;
    LIST_INIT(&b->free);
    TAILQ_INIT(&b->silent);
    SLIST_INIT(&b->pending);
    SLIST_INIT(&b->answering);
    return 0;
}

void batch_connections_destroy(struct batch *b)
{
    free(b->connections);
    free(b->buckets);
}

static struct connection_list *bucket_of(struct batch *b, uint64_t key)
{
    /* Keys may be pointers or counters: the product's upper half mixes all bits. */
    return &b->buckets[(key * 0x9e3779b97f4a7c15u >> 32) & b->bucket_mask];
}

static struct connection *connection_find(struct batch *b, uint64_t key)
{
    struct connection *c;

    LIST_FOREACH (c, bucket_of(b, key), chain) {
        if (c->key == key)
            return c;
    }
    return NULL;
}

static bool is_silent(const struct connection *c)
{
    return c->pending_count == 0 && c->inflight_count == 0;
}

static void answers_forget(struct batch *b, struct connection *c)
{
    for (; c->run_count > 0; c->run_count--) {
        rally_lost(b, &c->runs[c->run_first]);
        c->run_first = (c->run_first + 1) % ANSWER_RUNS;
    }
}

struct connection *batch_connection_get(struct batch *b, uint64_t key)
{
    struct connection *c = connection_find(b, key);

    if (c != NULL)
        return c;
    if ((c = LIST_FIRST(&b->free)) != NULL) {
        LIST_REMOVE(c, chain);
    } else if (b->connections_used < b->connection_count) {
        c = &b->connections[b->connections_used++];
    } else if ((c = TAILQ_FIRST(&b->silent)) != NULL) {
        answers_forget(b, c);
        LIST_REMOVE(c, chain);
        TAILQ_REMOVE(&b->silent, c, silent);
        b->counters.forgotten++;
    } else {
        return NULL;
    }
    *c = (struct connection){.key = key};
    LIST_INSERT_HEAD(bucket_of(b, key), c, chain);
    TAILQ_INSERT_TAIL(&b->silent, c, silent);
    return c;
}

/* One flush came: the oldest answer has led to it. */
static void answers_take(struct batch *b, struct connection *c)
{
    struct answers *oldest = &c->runs[c->run_first];

    if (c->run_count == 0)
        return;
    rally_returned(b, oldest);
    if (--oldest->count == 0) {
        c->run_first = (c->run_first + 1) % ANSWER_RUNS;
        c->run_count--;
    }
}

void batch_connection_arrived(struct batch *b, struct connection *c, bool covered)
{
    answers_take(b, c);
    if (is_silent(c))
        TAILQ_REMOVE(&b->silent, c, silent);
    if (covered) {
        if (c->inflight_count++ == 0)
            SLIST_INSERT_HEAD(&b->answering, c, inflight);
    } else {
        if (c->pending_count++ == 0)
            SLIST_INSERT_HEAD(&b->pending, c, pending);
    }
}

void batch_connections_begin(struct batch *b)
{
    struct connection *c;

    assert(SLIST_EMPTY(&b->answering));
    while ((c = SLIST_FIRST(&b->pending)) != NULL) {
        SLIST_REMOVE_HEAD(&b->pending, pending);
        c->inflight_count = c->pending_count;
        c->pending_count = 0;
        SLIST_INSERT_HEAD(&b->answering, c, inflight);
    }
}

uint32_t batch_connections_answering(const struct batch *b)
{
    const struct connection *c;
    uint32_t count = 0;

    SLIST_FOREACH(c, &b->answering, inflight)
    {
        if (!c->gone)
            count += c->inflight_count;
    }
    return count;
}

static void answers_add(struct batch *b, struct connection *c, uint64_t cohort)
{
    if (c->run_count == ANSWER_RUNS) {
        rally_lost(b, &c->runs[c->run_first]);
        c->run_first = (c->run_first + 1) % ANSWER_RUNS;
        c->run_count--;
    }
    c->runs[(c->run_first + c->run_count) % ANSWER_RUNS] =
        (struct answers){.end_ns = b->now_ns, .cohort = cohort, .count = c->inflight_count};
    c->run_count++;
}

void batch_connections_end(struct batch *b, uint64_t cohort)
{
    struct connection *c;

    while ((c = SLIST_FIRST(&b->answering)) != NULL) {
        SLIST_REMOVE_HEAD(&b->answering, inflight);
        if (cohort != 0 && !c->gone)
            answers_add(b, c, cohort);
        c->inflight_count = 0;
        if (!is_silent(c))
            continue;
        if (c->gone)
            LIST_INSERT_HEAD(&b->free, c, chain);
        else
            TAILQ_INSERT_TAIL(&b->silent, c, silent);
    }
}

void batch_connection_drop(struct batch *b, uint64_t key)
{
    struct connection *c = connection_find(b, key);

    if (c == NULL)
        return;
    answers_forget(b, c);
    LIST_REMOVE(c, chain);
    c->gone = true;
    if (is_silent(c)) {
        TAILQ_REMOVE(&b->silent, c, silent);
        LIST_INSERT_HEAD(&b->free, c, chain);
    }
}
