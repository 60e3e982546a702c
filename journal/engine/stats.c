/* stats: see stats.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine_state.h"

/* Places that are remembered: so many in a full ring, or one each second in a calm one. */
#define MARKS_IN_RING (STATS_MARKS / 2)
#define MARK_NS UINT64_C(1000000000)

static void add(uint64_t *sum, const uint64_t *from)
{
    *sum += __atomic_load_n(from, __ATOMIC_RELAXED);
}

void stats_requests_add(struct stats_requests *sum, const struct stats_requests *from)
{
    for (unsigned i = 0; i < STATS_KINDS; i++) {
        add(&sum->count[i], &from->count[i]);
        add(&sum->bytes[i], &from->bytes[i]);
    }
    add(&sum->fua, &from->fua);
    add(&sum->errors, &from->errors);
    add(&sum->throttled, &from->throttled);
    add(&sum->throttled_ns, &from->throttled_ns);
    add(&sum->commit_ns.sum_ns, &from->commit_ns.sum_ns);
    for (unsigned i = 0; i < STATS_BUCKETS; i++)
        add(&sum->commit_ns.buckets[i], &from->commit_ns.buckets[i]);
    add(&sum->held, &from->held);
    add(&sum->held_ns, &from->held_ns);
    add(&sum->company, &from->company);
}

/* ---- durations ---- */

uint64_t stats_times_top(unsigned bucket)
{
    return histogram_bucket_top((bucket + 1) * STATS_BUCKET_WIDTH - 1);
}

uint64_t stats_times_count(const struct stats_times *t)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < STATS_BUCKETS; i++)
        count += t->buckets[i];
    return count;
}

uint64_t stats_times_quantile(const struct stats_times *t, double quantile)
{
    double rank = quantile * (double)stats_times_count(t);
    uint64_t seen = 0;

    for (unsigned i = 0; i < STATS_BUCKETS; i++) {
        seen += t->buckets[i];
        if (seen > 0 && (double)seen >= rank)
            return stats_times_top(i);
    }
    return 0;
}

/* ---- clients ---- */

static struct stats_client *find_locked(struct engine_disk *d, uint64_t client) REQUIRES_LOCK
{
    struct stats_client *c;

    LIST_FOREACH (c, &d->clients, link) {
        if (c->client == client)
            return c;
    }
    return NULL;
}

int stats_connect(struct engine_disk *d, const char *label, struct engine_client *who)
{
    struct stats_client *c = calloc(1, sizeof(*c)), *known;
    LOCK_SCOPE(&d->engine->lock);

    if (c == NULL)
        return -ENOMEM;
    known = find_locked(d, who->client);
    if (known != NULL) {
        free(c);
        c = known;
    } else {
        c->disk = d;
        c->client = who->client;
        snprintf(c->label, sizeof(c->label), "%s", label);
        LIST_INSERT_HEAD(&d->clients, c, link);
    }
    c->connections++;
    who->stats = c;
    return 0;
}

void stats_disconnect_locked(struct stats_client *c)
{
    if (c == NULL || --c->connections > 0)
        return;
    stats_requests_add(&c->disk->gone, &c->requests);
    LIST_REMOVE(c, link);
    free(c);
}

void stats_disk_closed_locked(struct engine_disk *d)
{
    stats_requests_add(&d->engine->stats.gone, &d->gone);
}

/* ---- commits, by whom they answered ---- */

/* Looks before it writes: many are answered by the same commit, at the same time. */
static void count_commit(struct stats_commits *c, uint64_t ended_ns)
{
    if (__atomic_load_n(&c->last_ns, __ATOMIC_RELAXED) != ended_ns &&
        __atomic_exchange_n(&c->last_ns, ended_ns, __ATOMIC_RELAXED) != ended_ns)
        stats_add(&c->count, 1);
}

void stats_durable(struct engine *e, const struct engine_client *who, uint64_t arrived_ns)
{
    uint64_t ended_ns = atomic_load(&e->commit_ended_ns), took_ns;
    struct stats_client *c = who != NULL ? who->stats : NULL;

    if (c == NULL || arrived_ns == 0)
        return;
    took_ns = ended_ns > arrived_ns ? ended_ns - arrived_ns : 0;
    stats_add(&c->requests.commit_ns.sum_ns, took_ns);
    stats_add(&c->requests.commit_ns.buckets[histogram_bucket_of(took_ns) / STATS_BUCKET_WIDTH],
              1);
    count_commit(&c->commits, ended_ns);
    count_commit(&c->disk->commits, ended_ns);
}

/* ---- what is counted under the lock ---- */

void stats_held_locked(const struct engine_client *who, uint64_t ns)
{
    if (who != NULL && who->stats != NULL) {
        stats_add(&who->stats->requests.held, 1);
        stats_add(&who->stats->requests.held_ns, ns);
    }
}

void stats_company_locked(const struct engine_client *who)
{
    if (who->stats != NULL)
        stats_add(&who->stats->requests.company, 1);
}

void stats_throttled_locked(struct engine *e, const struct engine_client *who, uint64_t ns)
{
    e->stats.throttled++;
    e->stats.throttled_ns += ns;
    if (who != NULL && who->stats != NULL) {
        stats_add(&who->stats->requests.throttled, 1);
        stats_add(&who->stats->requests.throttled_ns, ns);
    }
}

void stats_commit_locked(struct engine *e, uint64_t ns, int error)
{
    if (error < 0) {
        e->stats.commits_failed++;
        return;
    }
    histogram_record(&e->stats.commit_ns, ns);
}

/* ---- the age of the oldest record ---- */

/* Forgets what lies wholly in front of the tail. */
static void prune(struct stats *s, uint64_t tail_position)
{
    unsigned first = 0;

    while (first + 1 < s->mark_count && s->marks[first + 1].position <= tail_position)
        first++;
    for (unsigned i = first; i < s->mark_count; i++)
        s->marks[i - first] = s->marks[i];
    s->mark_count -= first;
}

/* Every other one: the ages stay as exact as they are old. */
static void thin_out(struct stats *s)
{
    for (unsigned i = 0; i < STATS_MARKS / 2; i++)
        s->marks[i] = s->marks[2 * i];
    s->mark_count = STATS_MARKS / 2;
}

static void put_mark(struct stats *s, uint64_t position, int64_t ns)
{
    if (s->mark_count == STATS_MARKS)
        thin_out(s);
    s->marks[s->mark_count++] = (struct stats_mark){.position = position, .ns = ns};
}

void stats_mark_locked(struct engine *e, uint64_t position)
{
    struct stats *s = &e->stats;

    prune(s, core_tail_position(e->core));
    put_mark(s, position, (int64_t)e->request_ns);
    s->mark_position = position + e->ring_bytes / MARKS_IN_RING;
    s->mark_ns = e->request_ns + MARK_NS;
}

void stats_recovered_locked(struct engine *e, uint64_t first_us)
{
    uint64_t now_us = clock_wall_us();
    uint64_t age_us = first_us != 0 && now_us > first_us ? now_us - first_us : 0;

    put_mark(&e->stats, core_tail_position(e->core),
             (int64_t)clock_now_ns() - (int64_t)age_us * 1000);
}

uint64_t stats_disk_age_locked(const struct engine_disk *d, uint64_t oldest_age_ns)
{
    uint64_t now_ns = clock_now_ns();

    if (d->image == NULL || core_image_dirty_bytes(d->image) == 0)
        return 0;
    return now_ns - d->dirty_ns < oldest_age_ns ? now_ns - d->dirty_ns : oldest_age_ns;
}

uint64_t stats_oldest_age_locked(struct engine *e)
{
    int64_t now_ns = (int64_t)clock_now_ns();

    prune(&e->stats, core_tail_position(e->core));
    if (e->stats.mark_count == 0 || now_ns < e->stats.marks[0].ns)
        return 0;
    return (uint64_t)(now_ns - e->stats.marks[0].ns);
}
