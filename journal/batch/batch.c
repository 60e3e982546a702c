/* batch: what all policies share: time, what is pending, bounds, counters.  See batch.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "batch_state.h"

#define NS_PER_US 1000
#define HOUR_US (3600 * UINT64_C(1000000))

/* Threads may read the clock just before they take the lock, and pass times in another order
 * than they read them.  What goes back further than that was set back. */
#define DISORDER_NS 1000000

/* One late wake-up (the machine was busy) counts at most as so many usual ones and a bit. */
#define WAKE_OUTLIER 4
#define WAKE_OUTLIER_NS 10000
#define WAKE_AVERAGE 8

static const struct policy *const policies[] = {
    &policy_none,
    &policy_jbd,
    &policy_jbd2,
    &policy_rally,
};
#define POLICIES (sizeof(policies) / sizeof(policies[0]))

const char *batch_policy_name(unsigned i)
{
    return i < POLICIES ? policies[i]->name : NULL;
}

static const struct policy *policy_find(const char *name)
{
    if (name == NULL)
        name = BATCH_POLICY_DEFAULT;
    for (unsigned i = 0; i < POLICIES; i++) {
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    }
    return NULL;
}

int batch_create(struct batch **out, const struct batch_config *config)
{
    const struct policy *policy = policy_find(config->policy);
    uint32_t connections = config->connections;
    struct batch *b;

    if (connections == 0)
        connections = BATCH_CONNECTIONS_DEFAULT;
    if (policy == NULL || config->min_us > config->max_us || config->max_us > HOUR_US ||
        config->tick_us > HOUR_US || connections > BATCH_CONNECTIONS_MAX)
        return -EINVAL;
    b = calloc(1, sizeof(*b));
    if (b == NULL)
        return -ENOMEM;
    b->policy = policy;
    b->min_ns = config->min_us * NS_PER_US;
    b->max_ns = config->max_us * NS_PER_US;
    b->tick_ns = config->tick_us * NS_PER_US;
    if (batch_connections_create(b, connections) < 0) {
        batch_destroy(b);
        return -ENOMEM;
    }
    *out = b;
    return 0;
}

void batch_destroy(struct batch *b)
{
    if (b == NULL)
        return;
    batch_connections_destroy(b);
    free(b);
}

/* A clock that was set back (none should be, but monotonic ones were seen to) makes time stand
 * still for a moment in here, and then go on.  One that jumps ahead ends a wait early and
 * spoils some averages for a few commits. */
static void time_set(struct batch *b, uint64_t caller_ns)
{
    uint64_t now_ns = caller_ns + b->skew_ns;

    if (now_ns < b->now_ns) {
        if (b->now_ns - now_ns > DISORDER_NS)
            b->skew_ns += b->now_ns - now_ns;
        return;
    }
    b->now_ns = now_ns;
}

/* Asks the policy, and keeps its answer within the bounds. */
static enum batch_answer consult(struct batch *b)
{
    uint64_t until_ns = 0, last_ns = batch_ready_ns(b) + b->max_ns;

    if (b->pending_count == 0)
        return BATCH_GO;
    if (b->go || b->now_ns >= last_ns || b->policy->consult(b, &until_ns) == BATCH_GO) {
        b->go = true;
        return BATCH_GO;
    }
    if (until_ns > last_ns)
        until_ns = last_ns;
    assert(until_ns > b->now_ns);
    if (!b->holding) {
        b->holding = true;
        b->holding_since_ns = b->now_ns;
        b->holding_count = b->pending_count;
    }
    b->holding_until_ns = until_ns;
    return BATCH_WAIT;
}

static void arrive(struct batch *b, uint64_t client, uint64_t connection, bool covered)
{
    struct connection *c = batch_connection_get(b, connection);

    b->counters.flushes++;
    if (c != NULL)
        batch_connection_arrived(b, c, covered);
    if (covered) {
        b->inflight_count++;
        return;
    }
    if (b->policy->arrive != NULL)
        b->policy->arrive(b, client, b->pending_count > 0 || b->inflight_count > 0);
    if (b->pending_count++ == 0)
        b->pending_since_ns = b->now_ns;
}

/* Something happened: does it end or shorten the wait that the leader was told? */
static bool leader_must_wake(struct batch *b)
{
    uint64_t told_ns = b->holding_until_ns;

    if (!b->holding || b->go)
        return false;
    if (consult(b) == BATCH_WAIT && b->holding_until_ns >= told_ns)
        return false;
    b->wakes_ns = b->now_ns;
    return true;
}

/* A leader asks: how late is it? */
static void wake_learn(struct batch *b)
{
    double late_ns;

    if (b->wakes_ns == 0 || b->now_ns < b->wakes_ns)
        return;
    late_ns = (double)(b->now_ns - b->wakes_ns);
    if (late_ns > WAKE_OUTLIER * b->wake_ns + WAKE_OUTLIER_NS)
        late_ns = WAKE_OUTLIER * b->wake_ns + WAKE_OUTLIER_NS;
    b->wake_ns += (late_ns - b->wake_ns) / WAKE_AVERAGE;
    b->wakes_ns = 0;
}

bool batch_arrive(struct batch *b, uint64_t client, uint64_t connection, uint64_t now_ns)
{
    time_set(b, now_ns);
    arrive(b, client, connection, false);
    return leader_must_wake(b);
}

void batch_arrive_covered(struct batch *b, uint64_t client, uint64_t connection,
                          uint64_t now_ns)
{
    assert(b->inflight);
    time_set(b, now_ns);
    arrive(b, client, connection, true);
}

enum batch_answer batch_consult(struct batch *b, uint64_t now_ns, uint64_t *until_ns)
{
    assert(!b->inflight);
    time_set(b, now_ns);
    wake_learn(b);
    if (consult(b) == BATCH_GO)
        return BATCH_GO;
    b->wakes_ns = b->holding_until_ns;
    /* Relative to the caller's time, which may be a little behind ours. */
    *until_ns = now_ns + (b->holding_until_ns - b->now_ns);
    return BATCH_WAIT;
}

void batch_commit_begin(struct batch *b, uint64_t now_ns)
{
    assert(!b->inflight);
    time_set(b, now_ns);
    if (b->holding) {
        b->counters.waits++;
        b->counters.waits_ns += b->now_ns - b->holding_since_ns;
        b->counters.company += b->pending_count - b->holding_count;
    }
    if (b->policy->begin != NULL)
        b->policy->begin(b);
    batch_connections_begin(b);
    b->inflight_count = b->pending_count;
    b->pending_count = 0;
    b->holding = b->go = false;
    b->wakes_ns = 0;
    b->inflight = true;
    b->begin_ns = b->now_ns;
}

void batch_commit_end(struct batch *b, uint64_t now_ns, uint64_t bytes, int error)
{
    uint64_t cohort = 0;

    assert(b->inflight);
    time_set(b, now_ns);
    b->ended = true;
    b->end_ns = b->now_ns;
    /* A commit that nobody waited for says little: it may have been paced or huge. */
    if (error == 0 && b->inflight_count > 0) {
        b->counters.commits++;
        if (b->policy->end != NULL)
            cohort = b->policy->end(b, b->now_ns - b->begin_ns, bytes,
                                    batch_connections_answering(b));
    }
    batch_connections_end(b, cohort);
    b->inflight_count = 0;
    b->inflight = false;
    b->wakes_ns = b->pending_count > 0 ? b->now_ns : 0;
}

bool batch_disconnect(struct batch *b, uint64_t connection, uint64_t now_ns)
{
    time_set(b, now_ns);
    batch_connection_drop(b, connection);
    return leader_must_wake(b);
}

void batch_stats(const struct batch *b, struct batch_stats *stats)
{
    *stats = b->counters;
    stats->policy = b->policy->name;
    stats->wake_ns = (uint64_t)b->wake_ns;
    if (b->policy->stats != NULL)
        b->policy->stats(b, stats);
}
