/* module: journal/batch decides, called as the engine calls it: the leader sleeps until the
 * time that it was told, or until an arrival wakes it. */
#include <assert.h>
#include <stdlib.h>

#include "batch.h"
#include "deciders.h"

struct module {
    struct batch *batch;
    uint64_t sleeps_until_ns; /* 0: nobody gathers */
    bool wake;
};

static void *module_create(const struct decider *decider, struct world *world)
{
    struct module *m = calloc(1, sizeof(*m));
    struct batch_config config = BATCH_CONFIG_DEFAULT;

    (void)world;
    config.policy = decider->name;
    if (m == NULL || batch_create(&m->batch, &config) < 0)
        abort();
    return m;
}

static void module_destroy(void *state)
{
    struct module *m = state;

    batch_destroy(m->batch);
    free(m);
}

static void module_arrive(void *state, struct world *world)
{
    struct module *m = state;
    const struct flush *flush = &world->pending[world->pending_count - 1];
    const struct client *client = flush->slot->client;

    m->wake = batch_arrive(m->batch, client->identity, client->number, world->now_ns);
}

static bool module_must_wake(void *state)
{
    struct module *m = state;

    return m->wake;
}

static void module_begin(void *state, struct world *world)
{
    struct module *m = state;

    m->sleeps_until_ns = 0;
    batch_commit_begin(m->batch, world->now_ns);
}

static void module_end(void *state, struct world *world, uint64_t duration_ns)
{
    struct module *m = state;
    uint64_t bytes = 0;

    (void)duration_ns;
    for (unsigned i = 0; i < world->committing_count; i++)
        bytes += world->committing[i].bytes;
    batch_commit_end(m->batch, world->now_ns, bytes, 0);
}

static unsigned module_decide(void *state, struct world *world, uint64_t *until_ns)
{
    struct module *m = state;

    /* Nobody woke the leader: it sleeps on. */
    if (m->sleeps_until_ns > world->now_ns && !m->wake) {
        *until_ns = m->sleeps_until_ns;
        return 0;
    }
    m->wake = false;
    if (batch_consult(m->batch, world->now_ns, until_ns) == BATCH_GO)
        return world->pending_count;
    assert(*until_ns > world->now_ns);
    m->sleeps_until_ns = *until_ns;
    return 0;
}

#define MODULE(policy, horizon)                                                        \
    {                                                                                  \
        .name = policy, .create = module_create, .destroy = module_destroy,            \
        .arrive = module_arrive, .must_wake = module_must_wake, .begin = module_begin, \
        .end = module_end, .decide = module_decide, .horizon_min_ns = horizon          \
    }

const struct decider module_deciders[MODULE_DECIDERS] = {
    MODULE("none", 0),
    MODULE("jbd", 120.0 * BATCH_TICK_US_DEFAULT * 1000),
    MODULE("jbd2", 0),
    MODULE("rally", 0),
};
