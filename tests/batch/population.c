/* population: see population.h. */
#include <math.h>
#include <stddef.h>

#include "chance.h"
#include "population.h"

#define KB 1024
#define ROUND_TRIP_NS 30e3
#define FLUSHES 2500 /* a run is about so many, all slots together */

const struct device devices[DEVICES] = {
    {"ram", 20e3, 0.2, 0.10, false}, {"nvme", 150e3, 0.7, 0.20, false},
    {"ssd", 1e6, 2.5, 0.25, false},  {"hdd", 10e6, 7, 0.30, false},
    {"net", 3e6, 1, 0.30, true},
};

/* ---- the scenarios ---- */

#define ALWAYS(...)     \
    {                   \
        CHANGE_NEVER,   \
        {               \
            __VA_ARGS__ \
        }               \
    }
#define EXPONENTIAL(mean)                      \
    {                                          \
        .kind = THINK_EXPONENTIAL, .a = (mean) \
    }
#define LOGNORMAL(mean, sigma)                             \
    {                                                      \
        .kind = THINK_LOGNORMAL, .a = (mean), .b = (sigma) \
    }
#define UNIFORM(from, to)                             \
    {                                                 \
        .kind = THINK_UNIFORM, .a = (from), .b = (to) \
    }
#define CONSTANT(time)                      \
    {                                       \
        .kind = THINK_CONSTANT, .a = (time) \
    }
#define BURST(flushes, time, pause)                                    \
    {                                                                  \
        .kind = THINK_BURST, .a = (time), .b = (pause), .n = (flushes) \
    }
#define BIMODAL(chance, first, second)                                    \
    {                                                                     \
        .kind = THINK_BIMODAL, .a = (first), .b = (second), .p = (chance) \
    }

#define FAST ALWAYS(EXPONENTIAL(0.05))
#define MID ALWAYS(LOGNORMAL(0.4, 0.5))
#define ONE ALWAYS(EXPONENTIAL(1.0))
#define SLOW ALWAYS(EXPONENTIAL(4.0))

#define EQUAL(n, speed, how, mean)                                             \
    {                                                                          \
        .name = "eq" #n "-" speed, .groups = {{.count = (n), .thinker = how}}, \
        .think_mean = (mean)                                                   \
    }
#define EQUALS(n)                                                                \
    EQUAL(n, "fast", FAST, 0), EQUAL(n, "mid", MID, .4), EQUAL(n, "1C", ONE, 1), \
        EQUAL(n, "4C", SLOW, 4)

const struct scenario scenarios[] = {
    EQUALS(1),
    EQUALS(2),
    EQUALS(4),
    EQUALS(8),
    EQUALS(16),
    EQUALS(32),
    EQUALS(64),
    {"det2-.7C", {{.count = 2, .thinker = ALWAYS(LOGNORMAL(.7, .05))}}, .7, 0, 0, 0},
    {"det8-.7C", {{.count = 8, .thinker = ALWAYS(LOGNORMAL(.7, .05))}}, .7, 0, 0, 0},

    /* unlike clients together */
    {"steady+15burst",
     {{.count = 1, .thinker = FAST}, {.count = 15, .thinker = ALWAYS(BURST(20, .05, 40))}},
     1,
     0,
     0,
     0},
    {"steady+1burst",
     {{.count = 1, .thinker = FAST}, {.count = 1, .thinker = ALWAYS(BURST(20, .05, 40))}},
     .5,
     0,
     0,
     0},
    {"halfidle8",
     {{.count = 4, .thinker = FAST}, {.count = 4, .thinker = ALWAYS(EXPONENTIAL(50))}},
     .2,
     0,
     0,
     0},
    {"halfidle32",
     {{.count = 16, .thinker = FAST}, {.count = 16, .thinker = ALWAYS(EXPONENTIAL(50))}},
     .2,
     0,
     0,
     0},
    {"1fast+1slow",
     {{.count = 1, .thinker = FAST}, {.count = 1, .thinker = ALWAYS(EXPONENTIAL(3))}},
     .2,
     0,
     0,
     0},
    {"15fast+1straggler",
     {{.count = 15, .thinker = FAST}, {.count = 1, .thinker = ALWAYS(CONSTANT(.9))}},
     .2,
     0,
     0,
     0},
    {"1fast+15mid",
     {{.count = 1, .thinker = FAST}, {.count = 15, .thinker = ALWAYS(EXPONENTIAL(1.5))}},
     1,
     0,
     0,
     0},
    {"8hot+8slow1C",
     {{.count = 8, .thinker = FAST}, {.count = 8, .thinker = ALWAYS(LOGNORMAL(1, .1))}},
     .5,
     0,
     0,
     0},
    {"4hot+12mid",
     {{.count = 4, .thinker = FAST}, {.count = 12, .thinker = ALWAYS(EXPONENTIAL(.5))}},
     .4,
     0,
     0,
     0},

    /* hard to predict, or just behind a commit */
    {"bimodal2", {{.count = 2, .thinker = ALWAYS(BIMODAL(.5, .05, 5))}}, 2.5, 0, 0, 0},
    {"bimodal16", {{.count = 16, .thinker = ALWAYS(BIMODAL(.5, .05, 5))}}, 2.5, 0, 0, 0},
    {"justmiss2", {{.count = 2, .thinker = ALWAYS(UNIFORM(.9, 1.3))}}, 1.1, 0, 0, 0},
    {"justmiss8", {{.count = 8, .thinker = ALWAYS(UNIFORM(.9, 1.3))}}, 1.1, 0, 0, 0},
    {"bi-justmiss8",
     {{.count = 8, .thinker = ALWAYS({.kind = THINK_JUST_MISS, .a = .05, .b = 1.05})}},
     .6,
     0,
     0,
     0},
    {"flip8",
     {{.count = 8, .thinker = {CHANGE_FLIP, {EXPONENTIAL(.05), EXPONENTIAL(3)}}}},
     1.5,
     0,
     0,
     0},
    {"flip2",
     {{.count = 2, .thinker = {CHANGE_FLIP, {EXPONENTIAL(.05), UNIFORM(1, 1.6)}}}},
     1,
     0,
     0,
     0},

    /* several connections of one client; several flushes in flight on one */
    {"shared4x4", {{.count = 16, .same_client = 4, .thinker = FAST}}, 0, 0, 0, 0},
    {"shared1x8", {{.count = 8, .same_client = 8, .thinker = FAST}}, 0, 0, 0, 0},
    {"qd16", {{.count = 1, .depth = 16, .thinker = FAST}}, 0, 0, 0, 0},
    {"qd32+4",
     {{.count = 1, .depth = 32, .thinker = FAST}, {.count = 4, .thinker = FAST}},
     0,
     0,
     0,
     0},
    {"qd8-1C", {{.count = 1, .depth = 8, .thinker = ONE}}, 1, 0, 0, 0},

    /* much data */
    {"big1M-16", {{.count = 16, .bytes = 1024 * KB, .thinker = FAST}}, 0, 120, true, 0},
    {"15small+1big",
     {{.count = 15, .thinker = FAST}, {.count = 1, .bytes = 4096 * KB, .thinker = FAST}},
     0,
     150,
     true,
     0},

    /* nearly open loop */
    {"poisson4", {{.count = 64, .thinker = ALWAYS(EXPONENTIAL(16))}}, 16, 40, 0, 0},
    {"poisson1", {{.count = 64, .thinker = ALWAYS(EXPONENTIAL(64))}}, 64, 25, 0, 0},
    {"poisson.3", {{.count = 16, .thinker = ALWAYS(EXPONENTIAL(50))}}, 50, 60, 0, 0},

    /* the world changes */
    {"device-regime", {{.count = 8, .thinker = ALWAYS(EXPONENTIAL(.2))}}, 2, 0, 0, true},
    {"population-regime",
     {{.count = 2, .thinker = FAST},
      {.count = 30, .thinker = {CHANGE_ACTIVE, {EXPONENTIAL(.05)}}}},
     0,
     600,
     0,
     0},
    {"think-regime",
     {{.count = 8,
       .thinker = {CHANGE_THIRDS, {EXPONENTIAL(.05), EXPONENTIAL(3), EXPONENTIAL(.05)}}}},
     1,
     0,
     0,
     0},
};

const unsigned scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);

static unsigned group_depth(const struct group *group)
{
    return group->depth > 0 ? group->depth : 1;
}

static unsigned group_bytes(const struct group *group)
{
    return group->bytes > 0 ? group->bytes : 8 * KB;
}

double scenario_horizon(const struct scenario *scenario, const struct device *device)
{
    double commit_ns = device->fixed_ns, cycles;
    unsigned slots = 0;

    for (unsigned i = 0; i < GROUPS_MAX; i++) {
        const struct group *group = &scenario->groups[i];
        unsigned group_slots = group->count * group_depth(group);
        slots += group_slots;
        if (scenario->bytes_matter)
            commit_ns += device->per_byte_ns * group_slots * group_bytes(group);
    }
    cycles = scenario->cycles;
    if (cycles == 0)
        cycles = fmax(150, fmin(2500, floor((double)FLUSHES / slots)));
    return cycles * (commit_ns * (1.5 + scenario->think_mean) + ROUND_TRIP_NS);
}

/* ---- random populations ---- */

static struct think think_random(struct rng *rng)
{
    double mean = .02 * pow(400, chance_uniform(rng)); /* .02 to 8 C, logarithmic */
    double a = .5 + chance_uniform(rng), b = 1 + 20 * chance_uniform(rng);
    double share = .05 + .9 * chance_uniform(rng);

    switch (rng_below(rng, 6)) {
    case 0:
        return (struct think)CONSTANT(mean);
    case 1:
        return (struct think)EXPONENTIAL(mean);
    case 2:
        return (struct think)LOGNORMAL(mean, share);
    case 3:
        return (struct think)UNIFORM(mean * a * .5, mean * (1 + a));
    case 4:
        return (struct think)BIMODAL(share, mean * .2, mean * b);
    default:
        return (struct think)BURST((unsigned)b + 2, mean * .3, mean * 10);
    }
}

/* The mean of what think_random made. */
static double think_mean(const struct think *how)
{
    switch (how->kind) {
    case THINK_UNIFORM:
        return (how->a + how->b) / 2;
    case THINK_BIMODAL:
        return how->p * how->a + (1 - how->p) * how->b;
    case THINK_BURST:
        return ((how->n - 1) * how->a + how->b) / how->n;
    default:
        return how->a;
    }
}

void population_random(uint64_t seed, struct scenario *scenario, struct device *device)
{
    static const unsigned depths[] = {1, 1, 1, 1, 2, 4, 16}, counts[] = {1, 1, 2, 3};
    struct rng rng = rng_stream(seed, 0, 0);
    unsigned groups;

    *device = devices[rng_below(&rng, DEVICES)];
    device->fixed_ns *= pow(2, chance_between(&rng, -1, 1));
    device->sigma = chance_between(&rng, 0, .5);
    groups = counts[rng_below(&rng, 4)];
    /* Long enough for the quickest group to go round often: a handful of commits measures luck. */
    *scenario =
        (struct scenario){.name = "random", .think_mean = INFINITY, .bytes_matter = true};
    for (unsigned i = 0; i < groups; i++) {
        struct group *group = &scenario->groups[i];
        group->count = (unsigned)pow(40, chance_uniform(&rng));
        group->thinker.parts[0] = think_random(&rng);
        group->depth = depths[rng_below(&rng, 7)];
        group->bytes = (unsigned)(4 * KB * pow(32, chance_uniform(&rng)));
        scenario->think_mean = fmin(scenario->think_mean, think_mean(&group->thinker.parts[0]));
    }
}

/* ---- a client ---- */

static double think(struct client *client, const struct think *how)
{
    struct rng *rng = &client->rng;

    switch (how->kind) {
    case THINK_CONSTANT:
        return how->a;
    case THINK_EXPONENTIAL:
        return chance_exponential(rng, how->a);
    case THINK_LOGNORMAL:
        return chance_lognormal(rng, how->a, how->b);
    case THINK_UNIFORM:
        return chance_between(rng, how->a, how->b);
    case THINK_BIMODAL:
        return chance_exponential(rng, chance_uniform(rng) < how->p ? how->a : how->b);
    case THINK_JUST_MISS:
        if (chance_uniform(rng) < .5)
            return chance_exponential(rng, how->a);
        return chance_between(rng, how->b, how->b + .4);
    case THINK_BURST:
        if (++client->burst < how->n)
            return chance_exponential(rng, how->a);
        client->burst = 0;
        return chance_exponential(rng, how->b);
    }
    return 0;
}

double client_think(struct client *client, double now_ns)
{
    const struct thinker *thinker = &client->group->thinker;
    double part = now_ns / client->horizon_ns, later = 0;
    unsigned which = 0;

    switch (thinker->change) {
    case CHANGE_NEVER:
        break;
    case CHANGE_THIRDS:
        which = part < .33 ? 0 : part < .66 ? 1 : 2;
        break;
    case CHANGE_FLIP:
        which = (uint64_t)(now_ns / (60 * client->commit_ns)) % 2;
        break;
    case CHANGE_ACTIVE:
        if (part < .33)
            later = .33 * client->horizon_ns - now_ns;
        else if (part >= .66)
            later = 10 * client->horizon_ns;
        break;
    }
    return later + ROUND_TRIP_NS * chance_between(&client->rng, .8, 1.2) +
           think(client, &thinker->parts[which]) * client->commit_ns;
}

unsigned client_bytes(struct client *client)
{
    unsigned mean = group_bytes(client->group), low = mean / 2 > 512 ? mean / 2 : 512;
    unsigned span = 2 * mean > 2 * low ? 2 * mean - 2 * low : mean;

    return low + (unsigned)(span * chance_uniform(&client->rng));
}
