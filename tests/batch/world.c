/* world: see world.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "world.h"

#define PER_FLUSH_NS 2000
#define TIMER_LATE_NS 5000
#define TAIL_CHANCE .02
#define TAIL_ALPHA 1.5
#define TAIL_MAX 30

/* Servers don't start at the beginning of time. */
#define START_NS UINT64_C(1000000000000)

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);

    if (memory == NULL)
        abort();
    return memory;
}

/* ---- events: a heap of arrivals, and at most one timer and one commit ---- */

struct event {
    uint64_t when_ns, order;
    struct slot *slot;
};

struct run {
    struct world world;
    const struct decider *decider;
    void *state;
    struct event *heap;
    unsigned heap_count;
    uint64_t order;
    uint64_t timer_ns, commit_ends_ns, commit_begun_ns; /* 0: none */
    bool gathering;                                     /* a leader sleeps */
    bool waking; /* or was woken, and asks when timer_ns has come */
    double horizon_ns;
    uint64_t wake_ns;
    bool device_changes;
    struct rng device_rng, timer_rng;
    double *latencies;
    size_t latency_count, latency_room;
    uint64_t commits;
};

static bool before(const struct event *a, const struct event *b)
{
    return a->when_ns != b->when_ns ? a->when_ns < b->when_ns : a->order < b->order;
}

static void heap_push(struct run *run, uint64_t when_ns, struct slot *slot)
{
    struct event event = {when_ns, run->order++, slot};
    unsigned at = run->heap_count++;

    while (at > 0 && before(&event, &run->heap[(at - 1) / 2])) {
        run->heap[at] = run->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    run->heap[at] = event;
}

static struct slot *heap_pop(struct run *run)
{
    struct slot *first = run->heap[0].slot;
    struct event last = run->heap[--run->heap_count];
    unsigned at = 0, child;

    while ((child = 2 * at + 1) < run->heap_count) {
        if (child + 1 < run->heap_count && before(&run->heap[child + 1], &run->heap[child]))
            child++;
        if (!before(&run->heap[child], &last))
            break;
        run->heap[at] = run->heap[child];
        at = child;
    }
    run->heap[at] = last;
    return first;
}

/* ---- what happens ---- */

static double elapsed_ns(const struct run *run)
{
    return (double)(run->world.now_ns - START_NS);
}

static void slot_think(struct run *run, struct slot *slot, double more_ns)
{
    double think_ns = client_think(slot->client, elapsed_ns(run)) + more_ns;

    slot->arrives_ns = run->world.now_ns + (uint64_t)think_ns + 1;
    heap_push(run, slot->arrives_ns, slot);
}

static double commit_time(struct run *run)
{
    struct world *world = &run->world;
    const struct device *device = world->device;
    struct rng *rng = &run->device_rng;
    double fixed_ns = device->fixed_ns, part = elapsed_ns(run) / run->horizon_ns;
    double time_ns = (double)world->committing_count * PER_FLUSH_NS;

    if (run->device_changes && part >= .33 && part < .66)
        fixed_ns *= 8;
    fixed_ns = chance_lognormal(rng, fixed_ns, device->sigma);
    if (device->heavy_tail && chance_uniform(rng) < TAIL_CHANCE)
        fixed_ns *= fmin(TAIL_MAX, 2 * chance_pareto(rng, TAIL_ALPHA));
    for (unsigned i = 0; i < world->committing_count; i++)
        time_ns += world->committing[i].bytes * device->per_byte_ns;
    return time_ns + fixed_ns;
}

static void commit_begin(struct run *run, unsigned count)
{
    struct world *world = &run->world;

    assert(count <= world->pending_count);
    memcpy(world->committing, world->pending, count * sizeof(struct flush));
    world->committing_count = count;
    world->pending_count -= count;
    memmove(world->pending, world->pending + count,
            world->pending_count * sizeof(struct flush));
    world->inflight = true;
    run->timer_ns = 0;
    run->gathering = false;
    run->commit_begun_ns = world->now_ns;
    run->commit_ends_ns = world->now_ns + (uint64_t)commit_time(run) + 1;
    run->commits++;
    if (run->decider->begin != NULL)
        run->decider->begin(run->state, world);
}

static void commit_end(struct run *run)
{
    struct world *world = &run->world;

    world->inflight = false;
    world->idle_since_ns = world->now_ns;
    run->commit_ends_ns = 0;
    for (unsigned i = 0; i < world->committing_count; i++) {
        struct flush *flush = &world->committing[i];
        if (run->latency_count == run->latency_room) {
            run->latency_room = 2 * run->latency_room + 1024;
            run->latencies = realloc(run->latencies, run->latency_room * sizeof(double));
            if (run->latencies == NULL)
                abort();
        }
        run->latencies[run->latency_count++] = (double)(world->now_ns - flush->arrived_ns);
        slot_think(run, flush->slot, 0);
    }
    if (run->decider->end != NULL)
        run->decider->end(run->state, world, world->now_ns - run->commit_begun_ns);
    world->committing_count = 0;
}

static void flush_arrive(struct run *run, struct slot *slot)
{
    struct world *world = &run->world;
    struct flush *flush = &world->pending[world->pending_count++];

    slot->arrives_ns = 0;
    *flush = (struct flush){
        .arrived_ns = world->now_ns, .slot = slot, .bytes = client_bytes(slot->client)};
    if (run->decider->arrive != NULL)
        run->decider->arrive(run->state, world);
}

static void leader_sleep(struct run *run, uint64_t until_ns)
{
    uint64_t now_ns = run->world.now_ns;
    double late_ns = TIMER_LATE_NS * chance_between(&run->timer_rng, .5, 1.5);

    run->gathering = true;
    run->timer_ns = (until_ns > now_ns ? until_ns : now_ns) + (uint64_t)late_ns + run->wake_ns;
}

static void leader_wake(struct run *run)
{
    run->gathering = run->waking = true;
    run->timer_ns = run->world.now_ns + run->wake_ns;
}

/* The device is free and somebody waits: who leads asks. */
static void decide(struct run *run)
{
    struct world *world = &run->world;
    uint64_t until_ns = 0;
    unsigned count = run->decider->decide(run->state, world, &until_ns);

    if (count > 0)
        commit_begin(run, count);
    else
        leader_sleep(run, until_ns);
}

/* One more came while a leader sleeps. */
static void decide_asleep(struct run *run)
{
    struct world *world = &run->world;
    uint64_t until_ns = 0;

    if (run->wake_ns == 0)
        decide(run);
    else if (run->decider->must_wake != NULL
                 ? run->decider->must_wake(run->state)
                 : run->decider->decide(run->state, world, &until_ns) > 0)
        leader_wake(run);
}

/* The next thing that happens, false: the run is over. */
static bool step(struct run *run)
{
    struct world *world = &run->world;
    uint64_t next_ns = UINT64_MAX;

    if (run->heap_count > 0)
        next_ns = run->heap[0].when_ns;
    if (run->commit_ends_ns > 0 && run->commit_ends_ns < next_ns)
        next_ns = run->commit_ends_ns;
    if (run->timer_ns > 0 && run->timer_ns < next_ns)
        next_ns = run->timer_ns;
    if ((double)(next_ns - START_NS) > run->horizon_ns)
        return false;
    world->now_ns = next_ns;
    if (next_ns == run->commit_ends_ns) {
        commit_end(run);
        if (world->pending_count > 0 && run->wake_ns > 0)
            leader_wake(run);
        else if (world->pending_count > 0)
            decide(run);
    } else if (next_ns == run->timer_ns) {
        run->timer_ns = 0;
        run->gathering = run->waking = false;
        decide(run);
    } else {
        flush_arrive(run, heap_pop(run));
        if (!world->inflight && !run->gathering)
            decide(run);
        else if (!world->inflight && !run->waking)
            decide_asleep(run);
    }
    return true;
}

/* ---- a run ---- */

static void populate(struct run *run, const struct scenario *scenario, uint64_t seed)
{
    struct world *world = &run->world;
    unsigned clients = 0, slots = 0, identity = 0;

    for (unsigned i = 0; i < GROUPS_MAX; i++) {
        const struct group *group = &scenario->groups[i];
        clients += group->count;
        slots += group->count * (group->depth > 0 ? group->depth : 1);
    }
    world->clients = allocate(clients, sizeof(*world->clients));
    world->slots = allocate(slots, sizeof(*world->slots));
    world->pending = allocate(slots, sizeof(*world->pending));
    world->committing = allocate(slots, sizeof(*world->committing));
    run->heap = allocate(slots, sizeof(*run->heap));
    for (unsigned i = 0; i < GROUPS_MAX; i++) {
        const struct group *group = &scenario->groups[i];
        for (unsigned k = 0; k < group->count; k++) {
            struct client *client = &world->clients[world->client_count];
            if (group->same_client == 0 || k % group->same_client == 0)
                identity++;
            *client = (struct client){
                .number = world->client_count,
                .identity = identity,
                .group = group,
                .commit_ns = world->device->fixed_ns,
                .horizon_ns = run->horizon_ns,
                .rng = rng_stream(seed, 1, world->client_count),
            };
            world->client_count++;
            for (unsigned d = 0; d < (group->depth > 0 ? group->depth : 1); d++)
                world->slots[world->slot_count++].client = client;
        }
    }
}

/* The value that would be at `rank` if they were sorted (Hoare's selection: a sort of all
 * latencies would take more time than the simulation). */
static double select_rank(double *values, size_t count, size_t rank)
{
    size_t low = 0, high = count - 1;

    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low, k = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[k] > pivot)
                k--;
            if (i >= k)
                break;
            double other = values[i];
            values[i++] = values[k];
            values[k--] = other;
        }
        /* low..k <= pivot <= k+1..high */
        if (rank <= k)
            high = k;
        else
            low = k + 1;
    }
    return values[low];
}

static struct outcome evaluate(struct run *run)
{
    struct outcome outcome = {.flushes = run->latency_count, .commits = run->commits};
    size_t count = run->latency_count;

    outcome.throughput = (double)count / run->horizon_ns * 1e9;
    if (count == 0)
        return outcome;
    for (size_t i = 0; i < count; i++)
        outcome.mean_ns += run->latencies[i] / (double)count;
    outcome.p99_ns = select_rank(run->latencies, count, (size_t)((double)count * .99));
    return outcome;
}

struct outcome world_run(const struct scenario *scenario, const struct device *device,
                         const struct decider *decider, uint64_t seed, double wake_ns)
{
    struct run run = {
        .decider = decider,
        .horizon_ns = fmax(scenario_horizon(scenario, device), decider->horizon_min_ns),
        .wake_ns = (uint64_t)wake_ns,
        .device_changes = scenario->device_changes,
        .device_rng = rng_stream(seed, 2, 0),
        .timer_rng = rng_stream(seed, 3, 0),
    };
    struct world *world = &run.world;
    struct outcome outcome;

    world->device = device;
    world->now_ns = world->idle_since_ns = START_NS;
    populate(&run, scenario, seed);
    run.state = decider->create(decider, world);
    for (unsigned i = 0; i < world->slot_count; i++) {
        struct slot *slot = &world->slots[i];
        slot_think(&run, slot, chance_uniform(&slot->client->rng) * device->fixed_ns);
    }
    while (step(&run))
        ;
    outcome = evaluate(&run);
    decider->destroy(run.state);
    free(world->clients);
    free(world->slots);
    free(world->pending);
    free(world->committing);
    free(run.heap);
    free(run.latencies);
    return outcome;
}
