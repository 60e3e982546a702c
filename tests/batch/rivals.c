/* rivals: what other systems do, and what was tried before rally. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deciders.h"

#define MS 1e6

/* One state for all of them. */
struct rival {
    double parameter;
    double commit_ns; /* average, 1/8 */
    unsigned commits;
    /* kernel */
    bool known, closed;
    unsigned last_identity, closed_count;
    uint64_t begun_ns;
    double average_ns; /* 1/4 */
    /* zil */
    int parallel;
    bool open;
    /* for each connection, or each slot */
    struct memory {
        uint64_t answered_ns; /* the last, 0: has come since */
        double return_ns;     /* average, 1/4 */
        unsigned active;      /* commit that answered it last */
    } * memories;
    /* return probability */
    double probability;
    unsigned answered, back, seen;
    uint64_t step_ends_ns;
    /* histogram */
    double delays[41], delay_count;
    uint64_t last_end_ns;
    /* clairvoyant */
    double *arrivals, carried_ns;
};

static void *rival_create(const struct decider *decider, struct world *world)
{
    struct rival *r = calloc(1, sizeof(*r));

    if (r == NULL)
        abort();
    r->parameter = decider->parameter;
    r->probability = .5;
    r->memories = calloc(world->slot_count, sizeof(*r->memories));
    r->arrivals = calloc(world->slot_count, sizeof(*r->arrivals));
    if (r->memories == NULL || r->arrivals == NULL)
        abort();
    return r;
}

static void rival_destroy(void *state)
{
    struct rival *r = state;

    free(r->memories);
    free(r->arrivals);
    free(r);
}

static void rival_end(void *state, struct world *world, uint64_t duration_ns)
{
    struct rival *r = state;
    double duration = (double)duration_ns;

    (void)world;
    r->commit_ns += r->commits == 0 ? duration : (duration - r->commit_ns) / 8;
    r->commits++;
}

static const struct flush *newest(const struct world *world)
{
    return &world->pending[world->pending_count - 1];
}

static uint64_t ready_ns(const struct world *world)
{
    uint64_t oldest_ns = world->pending[0].arrived_ns;

    return oldest_ns > world->idle_since_ns ? oldest_ns : world->idle_since_ns;
}

/* All that is pending, if its time has come. */
static unsigned go_at(const struct world *world, double when_ns, uint64_t *until_ns)
{
    *until_ns = (uint64_t)when_ns;
    return world->now_ns >= *until_ns ? world->pending_count : 0;
}

/* ---- a fixed wait ---- */

static unsigned fixed_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct rival *r = state;

    return go_at(world, (double)ready_ns(world) + r->parameter, until_ns);
}

/* ---- jbd2, to the letter ----
 *
 * Unlike our jbd2: a commit takes only those who came before the first of them woke up; and the
 * same client never sleeps, also when it is not alone.  The sleep is the whole average commit
 * (parameter 0), or, as the comment beside it says, what is left of it (1). */

static void kernel_add(struct rival *r, struct world *world, unsigned index, uint64_t now_ns)
{
    struct flush *flush = &world->pending[index];
    unsigned identity = flush->slot->client->identity;
    double sleep_ns = fmin(r->average_ns, 15 * MS);

    if (index == 0)
        r->begun_ns = now_ns;
    flush->ready_ns = now_ns;
    if (r->known && r->last_identity == identity)
        return;
    r->known = true;
    r->last_identity = identity;
    if ((double)(now_ns - r->begun_ns) < sleep_ns)
        flush->ready_ns = (r->parameter > 0 ? r->begun_ns : now_ns) + (uint64_t)sleep_ns;
}

static void kernel_arrive(void *state, struct world *world)
{
    struct rival *r = state;

    if (!r->closed)
        kernel_add(r, world, world->pending_count - 1, world->now_ns);
}

static unsigned kernel_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct rival *r = state;
    uint64_t first_ns = UINT64_MAX, last_ns = 0;

    if (!r->closed) {
        for (unsigned i = 0; i < world->pending_count; i++) {
            if (world->pending[i].ready_ns < first_ns)
                first_ns = world->pending[i].ready_ns;
        }
        *until_ns = first_ns;
        if (first_ns > world->now_ns)
            return 0;
        r->closed = true;
        r->closed_count = world->pending_count;
    }
    for (unsigned i = 0; i < r->closed_count; i++) {
        if (world->pending[i].ready_ns > last_ns)
            last_ns = world->pending[i].ready_ns;
    }
    *until_ns = last_ns;
    return last_ns <= world->now_ns ? r->closed_count : 0;
}

static void kernel_begin(void *state, struct world *world)
{
    struct rival *r = state;

    r->closed = false;
    for (unsigned i = 0; i < world->pending_count; i++)
        kernel_add(r, world, i, world->pending[i].arrived_ns);
}

static void kernel_end(void *state, struct world *world, uint64_t duration_ns)
{
    struct rival *r = state;
    double duration = (double)duration_ns;

    r->average_ns = r->commits == 0 ? duration : (duration + 3 * r->average_ns) / 4;
    rival_end(state, world, duration_ns);
}

/* ---- OpenZFS: a tenth of a commit, when there were several lately ---- */

static void zil_arrive(void *state, struct world *world)
{
    struct rival *r = state;

    if (r->open)
        r->parallel = 8;
    else if (world->inflight && r->parallel < 4)
        r->parallel = 4;
    r->open = true;
}

static void zil_begin(void *state, struct world *world)
{
    struct rival *r = state;

    (void)world;
    r->open = false;
    if (r->parallel > 0)
        r->parallel--;
}

static unsigned zil_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct rival *r = state;

    if (r->parallel == 0)
        return world->pending_count;
    return go_at(world, (double)world->pending[0].arrived_ns + .1 * r->commit_ns, until_ns);
}

/* ---- until all who were active in the last two commits are there, at most a commit ---- */

static void active_end(void *state, struct world *world, uint64_t duration_ns)
{
    struct rival *r = state;

    rival_end(state, world, duration_ns);
    for (unsigned i = 0; i < world->committing_count; i++)
        r->memories[world->committing[i].slot->client->number].active = r->commits;
}

static bool is_pending(const struct world *world, unsigned number)
{
    for (unsigned i = 0; i < world->pending_count; i++) {
        if (world->pending[i].slot->client->number == number)
            return true;
    }
    return false;
}

static unsigned active_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct rival *r = state;

    for (unsigned i = 0; i < world->client_count; i++) {
        unsigned active = r->memories[i].active;
        if (active > 0 && active + 2 > r->commits && !is_pending(world, i))
            return go_at(world, (double)ready_ns(world) + r->commit_ns, until_ns);
    }
    return world->pending_count;
}

/* ---- an average return delay for each connection ---- */

static void predict_arrive(void *state, struct world *world)
{
    struct rival *r = state;
    struct memory *m = &r->memories[newest(world)->slot->client->number];
    double delay_ns = (double)(world->now_ns - m->answered_ns);

    if (m->answered_ns == 0)
        return;
    m->return_ns += m->return_ns == 0 ? delay_ns : (delay_ns - m->return_ns) / 4;
    m->answered_ns = 0;
}

static void predict_end(void *state, struct world *world, uint64_t duration_ns)
{
    struct rival *r = state;

    rival_end(state, world, duration_ns);
    for (unsigned i = 0; i < world->committing_count; i++)
        r->memories[world->committing[i].slot->client->number].answered_ns = world->now_ns;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static unsigned predict_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct rival *r = state;
    double best = 0, best_ns = 0, gain = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < world->client_count; i++) {
        struct memory *m = &r->memories[i];
        double in_ns;
        if (m->answered_ns == 0 || m->return_ns == 0)
            continue;
        in_ns = m->return_ns - (double)(world->now_ns - m->answered_ns);
        if (in_ns >= -m->return_ns && in_ns < r->commit_ns)
            r->arrivals[count++] = in_ns > 0 ? in_ns : m->return_ns / 4;
    }
    qsort(r->arrivals, count, sizeof(double), compare_doubles);
    for (unsigned i = 0; i < count; i++) {
        gain += r->commit_ns - r->arrivals[i];
        if (gain - world->pending_count * r->arrivals[i] > best) {
            best = gain - world->pending_count * r->arrivals[i];
            best_ns = r->arrivals[i];
        }
    }
    return best <= 0 ? world->pending_count
                     : go_at(world, (double)world->now_ns + fmax(best_ns, 1e3), until_ns);
}

/* ---- in steps, by the share of those who came back while we waited ---- */

static void share_arrive(void *state, struct world *world)
{
    struct rival *r = state;

    if (!world->inflight)
        r->back++;
}

static void share_begin(void *state, struct world *world)
{
    struct rival *r = state;

    (void)world;
    if (r->answered > 0)
        r->probability += (fmin(1, (double)r->back / r->answered) - r->probability) / 8;
    r->answered = 0;
}

static void share_end(void *state, struct world *world, uint64_t duration_ns)
{
    struct rival *r = state;

    rival_end(state, world, duration_ns);
    r->answered = world->committing_count;
    r->back = r->seen = 0;
}

static unsigned share_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct rival *r = state;
    unsigned count = world->pending_count;

    if (r->answered == 0 || r->back >= r->answered)
        return count;
    if (count > r->seen) {
        r->seen = count;
        r->step_ends_ns = world->now_ns +
                          (uint64_t)(r->probability * r->commit_ns / (count + r->probability));
    }
    return go_at(world, (double)r->step_ends_ns, until_ns);
}

/* ---- a histogram of return delays in units of C, one cohort: rally's ancestor ---- */

static unsigned delay_bucket(double delay)
{
    double bucket = (log2(delay + 1e-12) + 8) * 4 + 1;

    return bucket < 1 ? 0 : bucket > 40 ? 40 : (unsigned)bucket;
}

static void delays_arrive(void *state, struct world *world)
{
    struct rival *r = state;
    struct memory *m = &r->memories[newest(world)->slot - world->slots];

    if (m->answered_ns == 0)
        return;
    r->delays[delay_bucket((double)(world->now_ns - m->answered_ns) / r->commit_ns)]++;
    if (++r->delay_count > 512) {
        for (unsigned i = 0; i <= 40; i++)
            r->delays[i] /= 2;
        r->delay_count /= 2;
    }
    if (m->answered_ns == r->last_end_ns && r->answered > 0)
        r->answered--;
    m->answered_ns = 0;
}

static void delays_end(void *state, struct world *world, uint64_t duration_ns)
{
    struct rival *r = state;

    rival_end(state, world, duration_ns);
    for (unsigned i = 0; i < world->committing_count; i++)
        r->memories[world->committing[i].slot - world->slots].answered_ns = world->now_ns;
    r->answered = world->committing_count;
    r->last_end_ns = world->now_ns;
}

static unsigned delays_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct rival *r = state;
    double age, left = 0, within = 0, best = 0, best_time = 0;
    unsigned bucket;

    if (r->answered == 0 || r->delay_count < 8)
        return world->pending_count;
    age = (double)(world->now_ns - r->last_end_ns) / r->commit_ns;
    bucket = delay_bucket(age);
    for (unsigned i = bucket + 1; i <= 40; i++)
        left += r->delays[i];
    if (left <= 0)
        return world->pending_count;
    for (unsigned i = bucket + 1; i < delay_bucket(1); i++) {
        double wait = pow(2, i / 4.0 - 8) - age, joined, value;
        within += r->delays[i];
        joined = r->answered * within / left;
        value =
            joined * (1 - wait) - (world->pending_count + (r->answered - joined) / 2) * wait;
        if (wait > 0 && value > best) {
            best = value;
            best_time = wait + age;
        }
    }
    return best <= 0
               ? world->pending_count
               : go_at(world, (double)r->last_end_ns + best_time * r->commit_ns, until_ns);
}

/* ---- the one that knows when everybody will come ---- */

static void oracle_end(void *state, struct world *world, uint64_t duration_ns)
{
    struct rival *r = state;
    double carried_ns = world->committing_count * 2000.0;

    for (unsigned i = 0; i < world->committing_count; i++)
        carried_ns += world->committing[i].bytes * world->device->per_byte_ns;
    r->carried_ns += (carried_ns - r->carried_ns) / 8;
    rival_end(state, world, duration_ns);
}

static unsigned oracle_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct rival *r = state;
    double commit_ns = r->commit_ns > 0 ? r->commit_ns : world->device->fixed_ns;
    double fixed_ns = fmax(commit_ns - r->carried_ns, .1 * commit_ns);
    double best = 0, best_ns = 0;
    unsigned count = 0, within = 0, next;

    for (unsigned i = 0; i < world->slot_count; i++) {
        uint64_t arrives_ns = world->slots[i].arrives_ns;
        double in_ns = (double)arrives_ns - (double)world->now_ns;
        if (arrives_ns != 0 && in_ns < 2 * commit_ns)
            r->arrivals[count++] = in_ns;
    }
    qsort(r->arrivals, count, sizeof(double), compare_doubles);
    while (within < count && r->arrivals[within] <= commit_ns)
        within++;
    next = within;
    for (unsigned i = 0; i < within; i++) {
        double wait_ns = r->arrivals[i], value;
        while (next < count && r->arrivals[next] <= commit_ns + wait_ns)
            next++;
        value = (i + 1 + next - within) * (fixed_ns - wait_ns) -
                (world->pending_count + within - i - 1) * wait_ns;
        if (value > best) {
            best = value;
            best_ns = wait_ns;
        }
    }
    return best_ns <= 0 ? world->pending_count
                        : go_at(world, (double)world->now_ns + best_ns + 1, until_ns);
}

#define RIVAL(what, prefix, ...)                                        \
    {                                                                   \
        .name = what, .create = rival_create, .destroy = rival_destroy, \
        .decide = prefix##_decide, __VA_ARGS__                          \
    }

const struct decider rival_deciders[RIVAL_DECIDERS] = {
    RIVAL("fixed 1 ms", fixed, .end = rival_end, .parameter = MS, .horizon_min_ns = 60 * MS),
    RIVAL("jbd2 as coded", kernel, .arrive = kernel_arrive, .begin = kernel_begin,
          .end = kernel_end),
    RIVAL("jbd2 as commented", kernel, .arrive = kernel_arrive, .begin = kernel_begin,
          .end = kernel_end, .parameter = 1),
    RIVAL("zil", zil, .arrive = zil_arrive, .begin = zil_begin, .end = rival_end),
    RIVAL("all active", active, .end = active_end),
    RIVAL("predictor", predict, .arrive = predict_arrive, .end = predict_end),
    RIVAL("return share", share, .arrive = share_arrive, .begin = share_begin,
          .end = share_end),
    RIVAL("histogram", delays, .arrive = delays_arrive, .end = delays_end),
    RIVAL("clairvoyant", oracle, .end = oracle_end, .cheats = true),
};
