/* deep: a crash in the middle of a recovery, and in the middle of the recovery after that, and so
 * on.
 *
 * A workload ends with a crash.  What it left is recovered and brought home; after each write of
 * that, the power is cut: of what is not flushed yet, all sectors are there, or none, or some, and
 * one is torn.  Each time recovery must show what the first one showed, byte for byte, and it is
 * brought home in turn, with cuts, down to the depth that was asked for; at last, without cuts, the
 * images alone must hold it.  So recover(recover(s)) is recover(s), wherever the first one ended.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "outcome.h"
#include "workload.h"

static const char usage[] =
    "usage: sim-deep [OPTION]...\n"
    "Crashes inside of recovery, and inside of the recovery after that.\n"
    "\n"
    "  --from N --count N  workloads of this many numbers (default 400 from 0)\n"
    "  --depth N           crashes inside one another (default 2)\n"
    "  --seed N            how they are carried out (default 1)\n"
    "  --planted N         with planted bug N (small core only): succeeds if it is found\n"
    "\n"
    "Exit code 0: nothing found, 1: a failure, with a line that replays it.\n";

#define DEEP_DISKS (1 + MODEL_IMAGES)
#define DEEP_MAX 8
#define WORKLOAD_OPS 5

/* How the unflushed sectors are there after a cut. */
enum cut { CUT_NONE, CUT_ALL, CUT_SOME, CUT_TORN, CUTS };

struct bytes {
    size_t size[DEEP_DISKS];
    uint8_t *of[DEEP_DISKS];
};

struct deep {
    struct world *w;
    unsigned depth_max;
    uint8_t *wanted; /* what recovery shows */
    uint8_t *shown;
    uint64_t states[DEEP_MAX + 1]; /* checked, by depth */
    struct rng rng;
    bool failed;
};

/* A drain that is under way at one depth. */
struct level {
    struct deep *deep;
    unsigned depth;
    struct bytes cache, stable;
};

static void bytes_make(struct bytes *b, const struct world *w)
{
    for (unsigned d = 0; d <= w->setup.image_count; d++) {
        b->size[d] = d == 0 ? w->journal.size : w->images[d - 1].size;
        b->of[d] = memory_get(b->size[d]);
    }
}

static void bytes_copy(struct bytes *to, const struct bytes *from)
{
    for (unsigned d = 0; d < DEEP_DISKS && from->of[d] != NULL; d++)
        memcpy(to->of[d], from->of[d], from->size[d]);
}

static void bytes_free(struct bytes *b)
{
    for (unsigned d = 0; d < DEEP_DISKS; d++)
        free(b->of[d]);
}

static bool recover(struct deep *deep, struct bytes *state, unsigned depth);

static size_t sector_end(const struct bytes *b, unsigned disk, size_t at)
{
    return at + DISK_SECTOR < b->size[disk] ? at + DISK_SECTOR : b->size[disk];
}

/* Sectors that differ are the unflushed ones; each is there or not. */
static void make_cut(const struct level *level, struct bytes *state, enum cut cut,
                     unsigned disk, size_t last)
{
    struct rng *rng = &level->deep->rng;

    bytes_copy(state, cut == CUT_NONE || cut == CUT_SOME ? &level->stable : &level->cache);
    for (unsigned d = 0; cut == CUT_SOME && d < DEEP_DISKS && state->of[d] != NULL; d++) {
        for (size_t at = 0; at < state->size[d]; at += DISK_SECTOR) {
            size_t end = sector_end(state, d, at);

            if (rng_chance(rng, 50))
                memcpy(state->of[d] + at, level->cache.of[d] + at, end - at);
        }
    }
    if (cut == CUT_TORN) { /* the sector that was written last, of the old and the new one */
        size_t from = last / DISK_SECTOR * DISK_SECTOR;
        size_t end = sector_end(state, disk, from);
        size_t torn = from + rng_below(rng, end - from);

        memcpy(state->of[disk] + torn, level->stable.of[disk] + torn, end - torn);
    }
}

static void level_wrote(void *opaque, unsigned disk, size_t offset, size_t count)
{
    struct level *level = opaque;
    struct deep *deep = level->deep;
    /* Below the first depth one way for each write is enough: there are many. */
    unsigned first = level->depth == 1 ? 0 : rng_below(&deep->rng, CUTS);
    unsigned end = level->depth == 1 ? CUTS : first + 1;
    struct bytes state = {0};

    if (deep->failed)
        return;
    bytes_make(&state, deep->w);
    for (unsigned cut = first; cut < end && !deep->failed; cut++) {
        make_cut(level, &state, cut, disk, offset + count - 1);
        recover(deep, &state, level->depth);
    }
    bytes_free(&state);
}

static void level_barrier(void *opaque, unsigned disk)
{
    struct level *level = opaque;

    memcpy(level->stable.of[disk], level->cache.of[disk], level->cache.size[disk]);
}

static void complain(struct deep *deep, unsigned depth, const char *what)
{
    deep->failed = true;
    if (!deep->w->failed)
        world_fail(deep->w, "P2", NULL, "%s, after a crash inside of recovery, %u deep", what,
                   depth);
}

/* What is left after `depth` crashes. */
static bool recover(struct deep *deep, struct bytes *state, unsigned depth)
{
    struct world *w = deep->w;
    struct level level = {.deep = deep, .depth = depth + 1};
    const struct drain_watch watch = {&level, level_wrote, level_barrier};
    struct recovered found;
    bool by_server = rng_chance(&deep->rng, 50);

    deep->states[depth]++;
    if (!recover_open(w, NULL, state->of[0], &found))
        return !(deep->failed = true);
    if (recover_view(w, found.core, state->of[0], &state->of[1], deep->shown) < 0)
        complain(deep, depth, "no view");
    if (depth == 0)
        memcpy(deep->wanted, deep->shown, w->model.state_bytes);
    else if (memcmp(deep->wanted, deep->shown, w->model.state_bytes) != 0)
        complain(deep, depth, "another state is shown");
    if (!deep->failed) {
        bytes_make(&level.cache, w);
        bytes_make(&level.stable, w);
        bytes_copy(&level.cache, state);
        bytes_copy(&level.stable, state);
        if (!recover_drain_watched(w, NULL, found.core, level.cache.of[0], &level.cache.of[1],
                                   by_server, depth < deep->depth_max ? &watch : NULL))
            deep->failed = true;
        for (unsigned i = 0; i < w->setup.image_count && !deep->failed; i++) {
            if (memcmp(level.cache.of[1 + i], deep->wanted + w->model.image_at[i],
                       level.cache.size[1 + i]) != 0)
                complain(deep, depth, "the images alone show another state");
        }
        bytes_free(&level.cache);
        bytes_free(&level.stable);
    }
    core_destroy(found.core);
    return !deep->failed;
}

/* Called with a world whose server has just died of a power cut. */
static bool dive(struct world *w, void *opaque)
{
    struct deep *deep = opaque;
    struct bytes state = {0};

    deep->w = w;
    deep->wanted = memory_get(w->model.state_bytes);
    deep->shown = memory_get(w->model.state_bytes);
    bytes_make(&state, w);
    memcpy(state.of[0], w->journal.stable, state.size[0]);
    for (unsigned i = 0; i < w->setup.image_count; i++)
        memcpy(state.of[1 + i], w->images[i].stable, state.size[1 + i]);
    recover(deep, &state, 0);
    bytes_free(&state);
    free(deep->wanted);
    free(deep->shown);
    return !deep->failed;
}

struct order {
    uint64_t from, count, seed;
    unsigned depth;
};

static void workload_make(struct workload *workload, uint64_t number, uint64_t seed)
{
    struct rng rng = rng_stream(number, 78, 1);

    *workload = (struct workload){
        .count = WORKLOAD_OPS,
        .side_by_side = number % 2 == 1,
        .seed = rng_mix(seed ^ rng_mix(number + 1)) % 1000000000,
        .fate = FATE_POWER,
    };
    for (unsigned i = 0; i < WORKLOAD_OPS; i++)
        workload->ops[i] = rng_below(&rng, workload_op_count());
}

static void parse(struct order *order, int argc, char *argv[])
{
    static const struct option longs[] = {
        {"from", required_argument, NULL, 'f'},
        {"count", required_argument, NULL, 'n'},
        {"depth", required_argument, NULL, 'd'},
        {"seed", required_argument, NULL, 's'},
        {"help", no_argument, NULL, '?'},
        {"planted", required_argument, NULL, 'p'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 'f':
            order->from = outcome_number(optarg);
            break;
        case 'n':
            order->count = outcome_number(optarg);
            break;
        case 'd':
            order->depth = outcome_number(optarg);
            if (order->depth > DEEP_MAX) {
                fputs("sim-deep: that is too deep\n", stderr);
                exit(2);
            }
            break;
        case 's':
            order->seed = outcome_number(optarg);
            break;
        case 'p':
            outcome_plant(optarg);
            break;
        default:
            fputs(usage, optopt == 0 ? stdout : stderr);
            exit(optopt == 0 ? 0 : 2);
        }
    }
}

int main(int argc, char *argv[])
{
    static struct world_counts counts;
    struct world_options options = {.samples = 1};
    struct order order = {.count = 400, .seed = 1, .depth = 2};
    struct deep deep = {0};
    bool ok = true;

    outcome_begin();
    parse(&order, argc, argv);
    deep.depth_max = order.depth;
    for (uint64_t n = order.from; ok && n < order.from + order.count; n++) {
        struct workload workload;

        workload_make(&workload, n, order.seed);
        deep.rng = rng_stream(n, order.seed, 79);
        ok = workload_dive(&workload, dive, &deep, &options, &counts);
        if (!ok)
            printf("replay: sim-deep --from %" PRIu64 " --count 1 --seed %" PRIu64
                   " --depth %u\n",
                   n, order.seed, order.depth);
    }
    for (unsigned depth = 0; depth <= order.depth; depth++)
        printf("%s%" PRIu64 " states after %u crashes", depth > 0 ? ", " : "",
               deep.states[depth], depth + 1);
    putchar('\n');
    return outcome_end(ok);
}
