/* population: who uses the journal: clients, how they think, devices, scenarios.
 *
 * A client has `depth` slots.  Each slot thinks, flushes, waits for the answer, for ever.  Think
 * times are in units of C, what a commit costs on this device when it has nothing to carry;
 * a network round trip of about 30 us is always added.
 */
#ifndef TESTS_BATCH_POPULATION_H
#define TESTS_BATCH_POPULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

/* ---- devices ---- */

struct device {
    const char *name;
    double fixed_ns;    /* C */
    double per_byte_ns; /* and 2 us for each flush, always */
    double sigma;       /* of fixed_ns, log-normal */
    bool heavy_tail;    /* 2% of the commits take much longer */
};

extern const struct device devices[];
#define DEVICES 5

/* ---- how a client thinks ---- */

enum think_kind {
    THINK_CONSTANT,    /* a */
    THINK_EXPONENTIAL, /* mean a */
    THINK_LOGNORMAL,   /* mean a, sigma b */
    THINK_UNIFORM,     /* a..b */
    THINK_BIMODAL,     /* exponential: with probability p mean a, else mean b */
    THINK_JUST_MISS,   /* half exponential of mean a, half uniform in b..b+0.4 */
    THINK_BURST,       /* n flushes with mean a, then a pause of mean b */
};

struct think {
    enum think_kind kind;
    double a, b, p;
    unsigned n;
};

enum think_change {
    CHANGE_NEVER,  /* parts[0] */
    CHANGE_THIRDS, /* parts[i] in the i-th third of the run */
    CHANGE_FLIP,   /* parts[0] and parts[1] in turn, every 60 C */
    CHANGE_ACTIVE, /* parts[0], but only in the second third of the run */
};

struct thinker {
    enum think_change change;
    struct think parts[3];
};

/* ---- groups of clients, scenarios ---- */

struct group {
    unsigned count, depth; /* depth 0: 1 */
    unsigned bytes;        /* mean of what a flush carries, 0: 8 KiB */
    unsigned same_client;  /* so many connections each are one client; 0: 1 */
    struct thinker thinker;
};

#define GROUPS_MAX 3

struct scenario {
    const char *name;
    struct group groups[GROUPS_MAX]; /* count 0: none */
    double think_mean;               /* about, to choose how long to run */
    unsigned cycles;                 /* 0: by the number of slots */
    bool bytes_matter;               /* for that choice */
    bool device_changes;             /* 8 times as slow in the second third */
};

extern const struct scenario scenarios[];
extern const unsigned scenario_count;

/* How long to run, in ns. */
double scenario_horizon(const struct scenario *scenario, const struct device *device);

/* A random scenario and device, from a seed. */
void population_random(uint64_t seed, struct scenario *scenario, struct device *device);

/* ---- one client while it runs ---- */

struct client {
    unsigned number; /* connection */
    unsigned identity;
    const struct group *group;
    double commit_ns, horizon_ns; /* C, and the length of the run */
    struct rng rng;
    unsigned burst;
};

double client_think(struct client *client, double now_ns);
unsigned client_bytes(struct client *client);

#endif
