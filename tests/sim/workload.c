/* workload: see workload.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "workload.h"

/* The first image; the second is one block.  No multiple of a sector, so that the end is odd. */
#define IMAGE_BYTES 10000u
#define IMAGE_GROWN 12345u
#define ALL UINT64_MAX /* to the image's end */

enum op_kind {
    OP_REQUEST,
    OP_COMMIT,            /* as the interval does */
    OP_CHECKPOINT,        /* to its end */
    OP_CHECKPOINT_BESIDE, /* what comes next goes on beside it */
    OP_PREWRITE,
    OP_STOP,
    OP_KILL,
    OP_POWER_CUT,
    OP_RESIZE,
};

struct op {
    const char *name;
    enum op_kind kind;
    struct request request;
};

#define REQUEST(name, kind, ...)        \
    {                                   \
        name, OP_REQUEST,               \
        {                               \
            REQUEST_##kind, __VA_ARGS__ \
        }                               \
    }

static const struct op ops[] = {
    REQUEST("write a block", WRITE, 0, 0, 4096, false),
    REQUEST("write the block behind it", WRITE, 0, 4096, 4096, false),
    REQUEST("write a sector inside", WRITE, 0, 512, 512, false),
    REQUEST("write across sectors", WRITE, 0, 300, 700, false),
    REQUEST("write across blocks", WRITE, 0, 3000, 3000, false),
    REQUEST("write the end", WRITE, 0, IMAGE_BYTES - 1, 1, false),
    REQUEST("write large", WRITE, 0, 1000, 8500, false),
    REQUEST("write all", WRITE, 0, 0, ALL, false),
    REQUEST("write a block, FUA", WRITE, 0, 0, 4096, true),
    REQUEST("write across sectors, FUA", WRITE, 0, 3900, 333, true),
    REQUEST("write large, FUA", WRITE, 0, 512, 9000, true),
    REQUEST("write to the other image", WRITE, 1, 100, 1000, false),
    REQUEST("trim a block", TRIM, 0, 0, 4096, false),
    REQUEST("trim across blocks", TRIM, 0, 2222, 2500, false),
    REQUEST("trim all", TRIM, 0, 0, ALL, false),
    REQUEST("trim a sector, FUA", TRIM, 0, 512, 512, true),
    REQUEST("zero a block", ZERO, 0, 4096, 4096, false),
    REQUEST("zero across sectors", ZERO, 0, 700, 3500, false),
    REQUEST("zero all, FUA", ZERO, 0, 0, ALL, true),
    REQUEST("flush", FLUSH, 0, 0, 0, false),
    REQUEST("flush the other image", FLUSH, 1, 0, 0, false),
    {"commit", OP_COMMIT, {0}},
    {"checkpoint", OP_CHECKPOINT, {0}},
    {"checkpoint beside", OP_CHECKPOINT_BESIDE, {0}},
    {"prewrite", OP_PREWRITE, {0}},
    {"stop", OP_STOP, {0}},
    {"kill", OP_KILL, {0}},
    {"power cut", OP_POWER_CUT, {0}},
    {"resize", OP_RESIZE, {0}},
};

#define OPS (sizeof(ops) / sizeof(ops[0]))

unsigned workload_op_count(void)
{
    return OPS;
}

const char *workload_op_name(unsigned op)
{
    return op < OPS ? ops[op].name : NULL;
}

bool workload_parse(struct workload *workload, const char *text)
{
    char *end;

    workload->count = 0;
    while (workload->count < WORKLOAD_MAX) {
        unsigned long op = strtoul(text, &end, 10);

        if (end == text || op >= OPS || (*end != ',' && *end != 0))
            return false;
        workload->ops[workload->count++] = op;
        if (*end == 0)
            return true;
        text = end + 1;
    }
    return false;
}

static void name_of(const struct workload *workload, char *name, size_t room)
{
    int used = snprintf(name, room, "sim-workloads --ops ");

    for (unsigned i = 0; i < workload->count; i++)
        used += snprintf(name + used, room - used, "%s%u", i > 0 ? "," : "", workload->ops[i]);
    snprintf(name + used, room - used, " --seed %llu%s%s", (unsigned long long)workload->seed,
             workload->side_by_side ? " --beside" : "",
             workload->fate == FATE_POWER ? " --power-cut" : "");
}

static void choose_setup(struct world_setup *setup, uint64_t seed)
{
    struct rng rng = rng_stream(seed, 1, 1);

    *setup = (struct world_setup){
        .sector_bytes = rng_chance(&rng, 70) ? 512 : 4096,
        .map_bytes = 1 << 20,
        .image_count = 2,
        .image_size = {IMAGE_BYTES, 4096},
        .client_count = 4,
        .lives = UINT32_MAX,
        .life_steps = UINT32_MAX,
        .eager_percent = 100,
        .listed_max = 40,
        .fault = FAULT_NONE,
    };
    setup->ring_bytes = setup->sector_bytes == 512 ? 32768 : 65536;
    if (rng_chance(&rng, 30))
        setup->staging_bytes = setup->ring_bytes / 2;
    setup->nap_percent = rng_below(&rng, 3);
    if (rng_chance(&rng, 50)) {
        setup->bypass_bytes = rng_chance(&rng, 50) ? 4096 : 1000;
        setup->bypass_part = setup->bypass_bytes * rng_range(&rng, 1, 3);
    }
}

/* ---- carrying it out ---- */

struct run {
    struct world *w;
    struct check *check;
    const struct workload *workload;
    unsigned next_client;
    bool grown;
};

/* Steps until `done` says so.  False: it will not be, because the server can't write (a fault), or
 * a promise was broken. */
static bool step_until(struct run *r, bool (*done)(const struct run *r))
{
    struct world *w = r->w;

    while (!w->failed && !done(r)) {
        if (w->activator.state == ACTIVATOR_FAILED)
            return false;
        if (!world_step(w, r->check)) {
            if (!w->failed)
                world_fail(w, "P8", NULL, "everybody waits");
            return false;
        }
    }
    return !w->failed;
}

static bool active(const struct run *r)
{
    return r->w->activator.state == ACTIVATOR_DONE;
}

static bool request_taken(const struct run *r)
{
    return r->w->script_client < 0;
}

static bool clients_idle(const struct run *r)
{
    if (r->w->script_client >= 0)
        return false;
    for (unsigned i = 0; i < r->w->setup.client_count; i++) {
        if (r->w->clients[i].state != CLIENT_IDLE)
            return false;
    }
    return true;
}

static bool checkpoint_over(const struct run *r)
{
    return !r->w->checkpointer.asked && r->w->checkpointer.state == CHECKPOINTER_IDLE;
}

static bool commit_over(const struct run *r)
{
    return r->w->committer.state == SYNC_JOB_NONE;
}

static bool prewrite_over(const struct run *r)
{
    return !r->w->prewriter.active;
}

static bool client_free_now(const struct run *r)
{
    return r->w->clients[r->next_client].state == CLIENT_IDLE;
}

static bool request(struct run *r, const struct request *wanted)
{
    struct world *w = r->w;
    struct request request = *wanted;

    if (request.length == ALL)
        request.length = w->setup.image_size[request.image] - request.offset;
    if (r->workload->side_by_side)
        r->next_client = (r->next_client + 1) % w->setup.client_count;
    if (!step_until(r, active) || !step_until(r, client_free_now))
        return false;
    w->script_request = request;
    w->script_client = r->next_client;
    return step_until(r, r->workload->side_by_side ? request_taken : clients_idle);
}

/* Lets an actor that waits for a whim of chance begin, once. */
static bool begin(struct run *r, unsigned *percent, bool (*over)(const struct run *r))
{
    *percent = 100;
    while (over(r) && !r->w->failed && r->w->life_step < 100000) {
        if (!world_step(r->w, r->check))
            break; /* there is nothing to do */
    }
    *percent = 0;
    return !r->w->failed;
}

static bool life(struct run *r)
{
    if (!world_life_start(r->w))
        return false;
    r->next_client = 0;
    step_until(r, active);
    return !r->w->failed;
}

static bool die(struct run *r, enum fate fate)
{
    if (fate == FATE_STOP)
        world_stop(r->w, r->check);
    if (!r->w->failed)
        world_life_end(r->w, r->check, fate);
    return !r->w->failed;
}

/* P5: whoever stopped it clean may do what he likes with the image. */
static bool resize(struct run *r)
{
    struct world *w = r->w;
    size_t size = r->grown ? IMAGE_BYTES : IMAGE_GROWN;
    bool clean;

    world_stop(w, r->check);
    clean = w->stopped_clean;
    if (!w->failed)
        world_life_end(w, r->check, FATE_STOP);
    if (w->failed)
        return false;
    if (clean && w->io_fault.disk == NULL) {
        world_resize(w, 0, size);
        r->grown = !r->grown;
    }
    return life(r);
}

static bool carry_out(struct run *r, const struct op *op)
{
    struct world *w = r->w;

    story(w, "---- %s", op->name);
    switch (op->kind) {
    case OP_REQUEST:
        return request(r, &op->request);
    case OP_COMMIT:
        if (core_aborted(w->core) || core_commit_all_target(w->core) == 0)
            return true;
        return begin(r, &w->setup.commit_percent, commit_over) && step_until(r, commit_over);
    case OP_CHECKPOINT:
    case OP_CHECKPOINT_BESIDE:
        if (!active(r) || core_aborted(w->core) || !step_until(r, checkpoint_over))
            return !w->failed;
        w->checkpointer.asked = true;
        return op->kind == OP_CHECKPOINT_BESIDE || step_until(r, checkpoint_over);
    case OP_PREWRITE:
        return begin(r, &w->setup.prewrite_percent, prewrite_over) &&
               step_until(r, prewrite_over);
    case OP_STOP:
        return die(r, FATE_STOP) && life(r);
    case OP_KILL:
        return die(r, FATE_KILL) && life(r);
    case OP_POWER_CUT:
        return die(r, FATE_POWER) && life(r);
    case OP_RESIZE:
        return resize(r);
    }
    return false;
}

/* After the end: what was found is built upon. */
static bool afterwards(struct run *r)
{
    static const struct request again = {REQUEST_WRITE, 0, 2000, 2500, true};
    static const struct request more = {REQUEST_TRIM, 0, 100, 50, false};

    r->w->io_fault = (struct io_fault){0};
    return life(r) && request(r, &again) && request(r, &more) &&
           die(r, r->workload->fate == FATE_POWER ? FATE_KILL : FATE_POWER) && life(r) &&
           step_until(r, clients_idle) && die(r, FATE_STOP);
}

bool workload_run(const struct workload *workload, enum workload_look look,
                  const struct io_fault *fault, const struct world_options *options,
                  struct world_counts *counts, uint64_t *io_calls)
{
    struct run r = {.workload = workload, .check = check_new(options)};
    struct world_setup setup;
    char name[200];
    bool ok;

    name_of(workload, name, sizeof(name));
    choose_setup(&setup, workload->seed);
    setup.check_percent = look == LOOK_ALL ? 100 : 0;
    r.w = world_new(workload->seed, &setup, name, options, counts);
    if (fault != NULL)
        r.w->io_fault = *fault;
    ok = life(&r);
    for (unsigned i = 0; ok && i < workload->count; i++) {
        if (i + 1 == workload->count && look == LOOK_LAST)
            r.w->setup.check_percent = 100;
        ok = carry_out(&r, &ops[workload->ops[i]]);
    }
    if (io_calls != NULL)
        *io_calls = r.w->io_calls;
    if (look != LOOK_END && ok && r.w->setup.check_percent == 100)
        r.w->setup.check_percent = 30;
    ok = !r.w->failed && die(&r, workload->fate) && afterwards(&r);
    check_free(r.check);
    world_free(r.w);
    return ok;
}

bool workload_dive(const struct workload *workload, bool (*look)(struct world *w, void *opaque),
                   void *opaque, const struct world_options *options,
                   struct world_counts *counts)
{
    struct run r = {.workload = workload, .check = check_new(options)};
    struct world_setup setup;
    char name[200];
    bool ok;

    name_of(workload, name, sizeof(name));
    choose_setup(&setup, workload->seed);
    r.w = world_new(workload->seed, &setup, name, options, counts);
    ok = life(&r);
    for (unsigned i = 0; ok && i < workload->count; i++)
        ok = carry_out(&r, &ops[workload->ops[i]]);
    ok = !r.w->failed && die(&r, FATE_POWER) && look(r.w, opaque);
    check_free(r.check);
    world_free(r.w);
    return ok;
}
