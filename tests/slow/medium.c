/* medium: see medium.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "medium.h"

#define MIB (UINT64_C(1) << 20)
#define CHANNELS_MAX 64

/* What a head that only switches tracks needs is part of the turn. */
const struct medium_profile medium_profiles[] = {
    {.name = "off", .text = "takes no time", .channels = 1},
    {.name = "ram",
     .text = "5 us a request, flush 20 us",
     .channels = 32,
     .cache_bytes = 1024 * MIB,
     .bytes_per_ns = 5,
     .read_us = 5,
     .write_us = 5,
     .flush_us = 20},
    {.name = "nvme",
     .text = "80 us reads, 20 us writes, 2 GB/s, cache, flush 150 us",
     .channels = 32,
     .cache_bytes = 256 * MIB,
     .bytes_per_ns = 2,
     .read_us = 80,
     .write_us = 20,
     .flush_us = 150},
    {.name = "ssd",
     .text = "90 us reads, 30 us writes, 500 MB/s, 64 MiB of cache, flush 1 ms",
     .channels = 8,
     .cache_bytes = 64 * MIB,
     .bytes_per_ns = 0.5,
     .read_us = 90,
     .write_us = 30,
     .flush_us = 1000},
    {.name = "hdd",
     .text = "7200 rpm, 150 MB/s, seek 0.8 ms + 6 ms * sqrt(distance), 32 MiB of cache",
     .channels = 1,
     .has_head = true,
     .cache_bytes = 32 * MIB,
     .bytes_per_ns = 0.15,
     .settle_us = 800,
     .stroke_us = 6000,
     .turn_us = 60e6 / 7200},
    {.name = "net",
     .text = "64 at once, 200 MB/s, no cache, every request and flush 3 ms with a heavy tail",
     .channels = CHANNELS_MAX,
     .heavy_tail = true,
     .bytes_per_ns = 0.2,
     .read_us = 3000,
     .write_us = 3000,
     .flush_us = 3000},
    {.name = NULL},
};

/* A flush of a disk that has nothing in its cache. */
#define EMPTY_FLUSH_SHARE 0.1
/* So late may a read in sequence come: it is still in the drive's read-ahead. */
#define READ_AHEAD_NS 4000000
/* Reads go before the draining of the cache by as much. */
#define DRAIN_HANDICAP_NS 4000000

/* What the medium has to do for a request; a write that is in the cache has none any more. */
struct work {
    TAILQ_ENTRY(work) link;
    struct medium_request *request;
    bool is_write, cached;
    uint64_t offset, length, number;
    uint64_t arrived_ns;
    uint64_t end_ns; /* while a channel has it */
};

TAILQ_HEAD(work_list, work);
TAILQ_HEAD(request_list, medium_request);

struct medium {
    const struct medium_profile *profile;
    uint64_t size;
    uint64_t chance;
    struct work_list waiting, busy;
    unsigned busy_count;
    struct request_list flushes; /* the first flush_group of them are being served */
    unsigned flush_group;
    uint64_t flush_end_ns;
    struct request_list answered;
    uint64_t number;         /* of the last request */
    uint64_t flushed_number; /* all up to it were flushed */
    uint64_t head_offset, head_ns;
    uint64_t bus_ns;
    uint64_t now_ns; /* all that happens before is done */
    struct medium_stats stats;
};

const struct medium_profile *medium_profile_find(const char *name)
{
    for (const struct medium_profile *p = medium_profiles; p->name != NULL; p++) {
        if (strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

struct medium *medium_create(const struct medium_profile *profile, uint64_t size, uint64_t seed)
{
    struct medium *m = calloc(1, sizeof(*m));

    assert(profile->channels <= CHANNELS_MAX);
    if (m == NULL)
        return NULL;
    m->profile = profile;
    m->size = size;
    m->chance = seed;
    TAILQ_INIT(&m->waiting);
    TAILQ_INIT(&m->busy);
    TAILQ_INIT(&m->flushes);
    TAILQ_INIT(&m->answered);
    return m;
}

static void works_free(struct work_list *list)
{
    struct work *w;

    while ((w = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, w, link);
        free(w);
    }
}

void medium_destroy(struct medium *m)
{
    works_free(&m->waiting);
    works_free(&m->busy);
    free(m);
}

/* ---- how long it takes ---- */

/* Uniform in [0, 1): splitmix64. */
static double draw(struct medium *m)
{
    uint64_t z = (m->chance += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) / (UINT64_C(1) << 53);
}

static uint64_t draw_ns(struct medium *m, double median_us)
{
    double us = median_us * (0.7 + 0.6 * draw(m));

    if (m->profile->heavy_tail) {
        double luck = draw(m);

        if (luck < 0.001)
            us = median_us * 50;
        else if (luck < 0.01)
            us = median_us * (5 + 15 * draw(m));
    }
    return us * 1000;
}

static uint64_t transfer_ns(const struct medium *m, uint64_t length)
{
    return m->profile->bytes_per_ns > 0 ? length / m->profile->bytes_per_ns : 0;
}

/* From the head's place at now_ns until the first byte of w comes by. */
static uint64_t position_ns(const struct medium *m, const struct work *w, uint64_t now_ns)
{
    const struct medium_profile *p = m->profile;
    double turn_ns = p->turn_us * 1000, track = p->bytes_per_ns * turn_ns;
    double distance = fabs((double)w->offset - (double)m->head_offset);
    double seek_ns = 0, angle, wait;

    if (w->offset == m->head_offset &&
        w->arrived_ns <= m->head_ns + (w->is_write ? 0 : READ_AHEAD_NS))
        return 0;
    if (distance > track)
        seek_ns = 1000 * (p->settle_us + p->stroke_us * sqrt(distance / m->size));
    angle = fmod((now_ns + seek_ns) / turn_ns, 1);
    wait = fmod(w->offset / track, 1) - angle;
    if (wait < 0)
        wait += 1;
    return seek_ns + wait * turn_ns;
}

/* What a free channel does next; NULL: nothing waits. */
static struct work *choose(struct medium *m, uint64_t now_ns)
{
    struct work *first = TAILQ_FIRST(&m->waiting), *w, *best = NULL;
    uint64_t best_ns = MEDIUM_NEVER;
    unsigned seen = 0;

    if (first == NULL || !m->profile->has_head ||
        (!first->cached && now_ns - first->arrived_ns > MEDIUM_PATIENCE_NS))
        return first;
    TAILQ_FOREACH (w, &m->waiting, link) {
        uint64_t ns = position_ns(m, w, now_ns);

        if (w->cached && TAILQ_EMPTY(&m->flushes))
            ns += DRAIN_HANDICAP_NS;
        if (ns < best_ns) {
            best = w;
            best_ns = ns;
        }
        if (++seen == MEDIUM_WINDOW)
            break;
    }
    return best;
}

static void work_begin(struct medium *m, struct work *w, uint64_t now_ns)
{
    uint64_t transfer = transfer_ns(m, w->length);

    TAILQ_REMOVE(&m->waiting, w, link);
    if (m->profile->has_head) {
        w->end_ns = now_ns + position_ns(m, w, now_ns) + transfer;
        m->head_ns = w->end_ns;
        m->head_offset = w->offset + w->length;
    } else {
        m->bus_ns = (m->bus_ns > now_ns ? m->bus_ns : now_ns) + transfer;
        w->end_ns =
            now_ns + draw_ns(m, w->is_write ? m->profile->write_us : m->profile->read_us);
        if (w->end_ns < m->bus_ns)
            w->end_ns = m->bus_ns;
    }
    m->stats.busy_ns += w->end_ns - now_ns;
    TAILQ_INSERT_TAIL(&m->busy, w, link);
    m->busy_count++;
}

/* ---- what happens ---- */

static void answer(struct medium *m, struct medium_request *r, uint64_t now_ns)
{
    r->answered_ns = now_ns;
    TAILQ_INSERT_TAIL(&m->answered, r, link);
}

static void work_end(struct medium *m, struct work *w)
{
    TAILQ_REMOVE(&m->busy, w, link);
    m->busy_count--;
    if (w->cached)
        m->stats.cached_bytes -= w->length;
    else
        answer(m, w->request, w->end_ns);
    free(w);
}

static bool is_undrained(const struct work_list *list, uint64_t number)
{
    const struct work *w;

    TAILQ_FOREACH (w, list, link) {
        if (w->is_write && w->number <= number)
            return true;
    }
    return false;
}

/* All flushes that wait are served together, once what the newest of them covers is on the medium. */
static void flush_begin(struct medium *m, uint64_t now_ns)
{
    struct medium_request *r;
    uint64_t number = 0;
    double us = m->profile->flush_us;
    unsigned group = 0;

    if (m->flush_group > 0 || TAILQ_EMPTY(&m->flushes))
        return;
    TAILQ_FOREACH (r, &m->flushes, link) {
        if (is_undrained(&m->waiting, r->number) || is_undrained(&m->busy, r->number))
            break;
        number = r->number;
        group++;
    }
    if (group == 0)
        return;
    if (number == m->flushed_number && m->profile->cache_bytes > 0)
        us *= EMPTY_FLUSH_SHARE;
    m->flushed_number = number;
    m->flush_group = group;
    m->flush_end_ns = now_ns + draw_ns(m, us);
}

static void flush_end(struct medium *m)
{
    uint64_t end_ns = m->flush_end_ns;

    for (; m->flush_group > 0; m->flush_group--) {
        struct medium_request *r = TAILQ_FIRST(&m->flushes);

        TAILQ_REMOVE(&m->flushes, r, link);
        answer(m, r, end_ns);
    }
}

static void begin_all(struct medium *m, uint64_t now_ns)
{
    struct work *w;

    while (m->busy_count < m->profile->channels && (w = choose(m, now_ns)) != NULL)
        work_begin(m, w, now_ns);
    flush_begin(m, now_ns);
}

static struct work *first_to_end(const struct medium *m)
{
    struct work *w, *first = NULL;

    TAILQ_FOREACH (w, &m->busy, link) {
        if (first == NULL || w->end_ns < first->end_ns)
            first = w;
    }
    return first;
}

uint64_t medium_next_ns(const struct medium *m)
{
    const struct work *w = first_to_end(m);
    uint64_t next = w != NULL ? w->end_ns : MEDIUM_NEVER;

    if (!TAILQ_EMPTY(&m->answered))
        return m->now_ns;
    if (m->flush_group > 0 && m->flush_end_ns < next)
        next = m->flush_end_ns;
    return next;
}

/* Everything that happens up to now_ns, each at its own time: who looks late does not make the
 * disk slower. */
static void advance(struct medium *m, uint64_t now_ns)
{
    assert(now_ns >= m->now_ns);
    for (;;) {
        struct work *w = first_to_end(m);
        bool flush = m->flush_group > 0 && (w == NULL || m->flush_end_ns <= w->end_ns);
        uint64_t event_ns = flush ? m->flush_end_ns : w != NULL ? w->end_ns : MEDIUM_NEVER;

        if (event_ns > now_ns)
            break;
        if (flush)
            flush_end(m);
        else
            work_end(m, w);
        begin_all(m, event_ns);
    }
    m->now_ns = now_ns;
}

static void count(struct medium_stats *stats, const struct medium_request *r)
{
    switch (r->kind) {
    case MEDIUM_READ:
        stats->reads++;
        stats->read_bytes += r->length;
        break;
    case MEDIUM_WRITE:
        stats->writes++;
        stats->written_bytes += r->length;
        break;
    case MEDIUM_FLUSH:
        stats->flushes++;
        break;
    }
}

void medium_submit(struct medium *m, struct medium_request *r, uint64_t now_ns)
{
    struct work *w;

    advance(m, now_ns);
    count(&m->stats, r);
    if (r->kind == MEDIUM_FLUSH) {
        r->number = m->number;
        TAILQ_INSERT_TAIL(&m->flushes, r, link);
        begin_all(m, now_ns);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    *w = (struct work){.request = r,
                       .is_write = r->kind == MEDIUM_WRITE,
                       .offset = r->offset,
                       .length = r->length,
                       .number = ++m->number,
                       .arrived_ns = now_ns};
    if (w->is_write && m->stats.cached_bytes + w->length <= m->profile->cache_bytes) {
        w->cached = true;
        m->stats.cached_bytes += w->length;
        answer(m, r, now_ns);
    }
    TAILQ_INSERT_TAIL(&m->waiting, w, link);
    begin_all(m, now_ns);
}

struct medium_request *medium_answered(struct medium *m, uint64_t now_ns)
{
    struct medium_request *r;

    advance(m, now_ns);
    r = TAILQ_FIRST(&m->answered);
    if (r != NULL)
        TAILQ_REMOVE(&m->answered, r, link);
    return r;
}

/* None of them is waited for any longer. */
static void works_end(struct medium *m, struct work_list *list, uint64_t now_ns)
{
    struct work *w;

    TAILQ_FOREACH (w, list, link) {
        if (!w->cached)
            answer(m, w->request, now_ns);
    }
    works_free(list);
}

void medium_change(struct medium *m, const struct medium_profile *profile, uint64_t now_ns)
{
    advance(m, now_ns);
    works_end(m, &m->busy, now_ns);
    works_end(m, &m->waiting, now_ns);
    m->busy_count = 0;
    m->flush_end_ns = now_ns;
    m->flush_group = 0;
    for (struct medium_request *r = TAILQ_FIRST(&m->flushes); r != NULL;
         r = TAILQ_NEXT(r, link))
        m->flush_group++;
    flush_end(m);
    m->profile = profile;
    m->head_ns = m->bus_ns = now_ns;
    m->flushed_number = m->number;
    m->stats = (struct medium_stats){0};
}

bool medium_idle(const struct medium *m)
{
    return TAILQ_EMPTY(&m->waiting) && TAILQ_EMPTY(&m->busy) && TAILQ_EMPTY(&m->flushes) &&
           TAILQ_EMPTY(&m->answered);
}

const struct medium_stats *medium_stats_get(const struct medium *m)
{
    return &m->stats;
}
