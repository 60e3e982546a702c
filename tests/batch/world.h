/* world: a journal and its clients in simulated time.
 *
 * One commit is in flight at a time.  A flush that comes meanwhile waits for the next one.  When
 * the device is free and somebody waits, the policy is asked; it is asked again when it wanted
 * to, whenever a flush comes, and when a commit ends.  A commit takes
 *
 *   fixed * jitter + bytes * per_byte + 2 us * flushes
 */
#ifndef TESTS_BATCH_WORLD_H
#define TESTS_BATCH_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "population.h"

struct slot {
    struct client *client;
    uint64_t arrives_ns; /* of its next flush, 0: it has one outstanding */
};

struct flush {
    uint64_t arrived_ns;
    struct slot *slot;
    unsigned bytes;
    uint64_t ready_ns; /* for policies */
};

struct world {
    const struct device *device;
    uint64_t now_ns, idle_since_ns;
    bool inflight;
    struct client *clients;
    unsigned client_count;
    struct slot *slots;
    unsigned slot_count;
    struct flush *pending; /* oldest first */
    unsigned pending_count;
    struct flush *committing;
    unsigned committing_count;
};

/* Who decides.  `state` is what create returned. */
struct decider {
    const char *name;
    bool cheats; /* knows what a server can't know: only to compare with */
    void *(*create)(const struct decider *decider, struct world *world);
    void (*destroy)(void *state);
    /* The newest of world->pending has come. */
    void (*arrive)(void *state, struct world *world);
    /* May be NULL.  world->committing begins / has ended. */
    void (*begin)(void *state, struct world *world);
    void (*end)(void *state, struct world *world, uint64_t duration_ns);
    /* Commit the first n of pending now (returned), or 0: ask again at *until_ns. */
    unsigned (*decide)(void *state, struct world *world, uint64_t *until_ns);
    /* Must the sleeping leader look again, after an arrival?  NULL: if it is to commit. */
    bool (*must_wake)(void *state);
    double horizon_min_ns; /* long fixed waits need longer runs on fast devices */
    double parameter;      /* free for the decider */
};

struct outcome {
    uint64_t flushes, commits;
    double throughput;      /* flushes a second */
    double mean_ns, p99_ns; /* latency */
};

/* wake_ns: what it takes to wake a sleeping leader, above the 2.5 to 7.5 us of each timer. */
struct outcome world_run(const struct scenario *scenario, const struct device *device,
                         const struct decider *decider, uint64_t seed, double wake_ns);

#endif
