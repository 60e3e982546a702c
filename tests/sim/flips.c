/* flips: each bit of a live journal is turned, each sector zeroed, doubled, swapped: whatever
 * recovery says then, it shows a state that once was, or reports the damage (P6).
 *
 * A journal of 64 KiB that has been around its ring, with everything in it: all kinds of records,
 * commits, epochs, and at its end records that are not flushed.  States of the images are kept for
 * each number of changes, so there is nothing that recovery could show and we would not know.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "outcome.h"

static const char usage[] =
    "usage: sim-flips [OPTION]...\n"
    "Damages a live journal of 64 KiB, bit by bit, and looks at what recovery makes of it.\n"
    "\n"
    "  --seed N      another journal (default 1)\n"
    "  --shard I/N   every N-th bit, from I on (0 to N-1)\n"
    "  --sectors     no bits: each sector zeroed, as each other one, swapped with each other "
    "one\n"
    "  --bit N       only this bit\n"
    "  --planted N   with planted bug N (small core only): succeeds if it is found\n"
    "\n"
    "Exit code 0: nothing found, 1: a failure, with a line that replays it.\n";

#define JOURNAL_BYTES 65536u
#define JOURNAL_BITS (8u * JOURNAL_BYTES)
#define SECTORS (JOURNAL_BYTES / DISK_SECTOR)

struct order {
    uint64_t seed, shard, shards;
    bool sectors, one;
    uint64_t bit;
};

struct live {
    struct world *w;
    uint8_t **states; /* [k] all images after k changes */
    uint32_t state_count;
    uint8_t *journal; /* what is to be damaged */
    uint8_t *view;
    /* the durable lsn that at least two records vouch for: losing one leaves the other */
    uint64_t vouched_lsn;
    uint64_t durable_highest;
    uint32_t whole; /* changes that recovery finds in the journal as it is */
    uint64_t unharmed, reported, cut, no_super;
};

/* ---- the journal ---- */

static void choose_setup(struct world_setup *setup, uint64_t seed)
{
    *setup = (struct world_setup){
        .sector_bytes = seed % 2 == 1 ? 512 : 4096,
        .ring_bytes = JOURNAL_BYTES - 2 * FORMAT_SUPER_MIN,
        .map_bytes = 1 << 20,
        .image_count = 2,
        .image_size = {10000, 8192},
        .client_count = 3,
        .lives = UINT32_MAX,
        .life_steps = UINT32_MAX,
        .size_profile = 3,
        .weight = {50, 10, 10, 10, 5},
        .fua_percent = 10,
        .commit_percent = 5,
        .drain_percent = 1,
        .eager_percent = 100,
        .prewrite_percent = 10,
        .fault = FAULT_NONE,
    };
}

static void remember_states(struct live *l)
{
    struct model *model = &l->w->model;

    while (l->state_count <= model->count) {
        l->states = memory_resize(l->states, (l->state_count + 1) * sizeof(*l->states));
        l->states[l->state_count] = memory_get(model->state_bytes);
        memcpy(l->states[l->state_count], model_state(model, l->state_count),
               model->state_bytes);
        l->state_count++;
    }
}

static bool steps(struct live *l, struct check *check, unsigned count)
{
    while (count-- > 0) {
        if (!world_step(l->w, check))
            return false;
        remember_states(l);
    }
    return !l->w->failed;
}

/* Not of chance alone, which may choose a life that writes nothing. */
static bool life_start(struct world *w)
{
    bool ok;

    w->scripted = "sim-flips";
    ok = world_life_start(w);
    w->scripted = NULL; /* but its requests */
    return ok;
}

/* Two lives, the second one around the ring, and at its end some records behind the last commit. */
static bool make_live(struct live *l, struct check *check)
{
    struct world *w = l->w;
    struct core_stats stats;
    uint64_t begun;

    if (!life_start(w) || !steps(l, check, 400))
        return false;
    world_life_end(w, check, FATE_KILL);
    if (w->failed || !life_start(w) || !steps(l, check, 200))
        return false;
    core_stats_get(w->core, &stats);
    begun = stats.head_position;
    do {
        if (!steps(l, check, 1))
            return false;
        core_stats_get(w->core, &stats);
    } while (stats.head_position < begun + stats.ring_bytes ||
             stats.published_lsn < stats.durable_lsn + 5 ||
             stats.used_bytes < stats.ring_bytes / 2);
    return true;
}

/* Notes what the records say that was durable. */
static int see_record(void *opaque, const struct record *record)
{
    struct live *l = opaque;

    if (record->durable_lsn > l->durable_highest)
        l->durable_highest = record->durable_lsn;
    else if (record->durable_lsn == l->durable_highest)
        l->vouched_lsn = record->durable_lsn;
    return 0;
}

/* ---- what recovery makes of it ---- */

static int scan(struct live *l, struct core *core, recovery_visit *visit,
                struct recovery_result *result)
{
    struct recovery *recovery;
    uint64_t position;
    size_t count;
    int r = recovery_create(&recovery, core, UINT64_MAX, visit, l);

    while (r == 0 && recovery_next(recovery, JOURNAL_BYTES, &position, &count))
        r = recovery_feed(recovery, l->journal + world_ring_at(l->w, position), count);
    recovery_finish(recovery, result);
    return r;
}

/* False: it shows what never was, or keeps quiet about what is lost. */
static bool look(struct live *l, recovery_visit *visit)
{
    struct world *w = l->w;
    uint8_t *images[MODEL_IMAGES];
    struct recovery_result result;
    struct superblock sb;
    struct core *core;
    uint32_t k;
    int r;

    if (!recover_super(w, l->journal, &sb)) {
        l->no_super++;
        return true;
    }
    r = core_create(&core, &sb, w->setup.map_bytes);
    format_super_free(&sb);
    if (r == 0)
        r = scan(l, core, visit, &result);
    if (r < 0 || result.verdict == RECOVERY_DAMAGED) {
        l->reported++;
        core_destroy(core);
        return true;
    }
    for (unsigned i = 0; i < w->setup.image_count; i++)
        images[i] = w->images[i].cache;
    k = model_count_upto(&w->model, result.cut.lsn);
    r = recover_view(w, core, l->journal, images, l->view);
    core_destroy(core);
    if (visit != NULL)
        l->whole = k;
    if (k == l->whole)
        l->unharmed++;
    else
        l->cut++;
    if (r < 0 || memcmp(l->view, l->states[k], w->model.state_bytes) != 0) {
        printf("FAIL P6: recovery shows a state of %u changes that never was\n", k);
        return false;
    }
    if (result.cut.lsn < l->vouched_lsn) {
        printf("FAIL P6: recovery cuts at lsn %" PRIu64 " and says nothing, though %" PRIu64
               " was durable\n",
               result.cut.lsn, l->vouched_lsn);
        return false;
    }
    return true;
}

static bool flip(struct live *l, uint64_t bit)
{
    uint8_t mask = 1u << bit % 8;
    bool ok;

    l->journal[bit / 8] ^= mask;
    ok = look(l, NULL);
    l->journal[bit / 8] ^= mask;
    if (!ok)
        printf("replay: sim-flips --seed %" PRIu64 " --bit %" PRIu64 "\n", l->w->seed, bit);
    return ok;
}

/* Sector a is made what `bytes` are, or swapped with b. */
static bool spoil(struct live *l, unsigned a, unsigned b, const char *how)
{
    uint8_t *at = l->journal + a * DISK_SECTOR, *other = l->journal + b * DISK_SECTOR;
    uint8_t kept[2][DISK_SECTOR];
    bool ok;

    memcpy(kept[0], at, DISK_SECTOR);
    memcpy(kept[1], other, DISK_SECTOR);
    if (how[0] == 'z')
        memset(at, 0, DISK_SECTOR);
    else
        memcpy(at, kept[1], DISK_SECTOR);
    if (how[0] == 's')
        memcpy(other, kept[0], DISK_SECTOR);
    ok = look(l, NULL);
    memcpy(other, kept[1], DISK_SECTOR);
    memcpy(at, kept[0], DISK_SECTOR);
    if (!ok)
        printf("replay: sim-flips --seed %" PRIu64 " --sectors   (sector %u, %s, %u)\n",
               l->w->seed, a, how, b);
    return ok;
}

static bool spoil_all(struct live *l, const struct order *order)
{
    bool ok = true;

    for (unsigned a = order->shard; ok && a < SECTORS; a += order->shards) {
        ok = spoil(l, a, a, "zeroed");
        for (unsigned b = 0; ok && b < SECTORS; b++)
            ok = b == a || (spoil(l, a, b, "copied over from") &&
                            (b > a || spoil(l, a, b, "swapped with")));
    }
    return ok;
}

static bool run(const struct order *order, struct world_counts *counts)
{
    struct world_options options = {.samples = 1};
    struct check *check = check_new(&options);
    struct live l = {0};
    struct world_setup setup;
    uint64_t done = 0;
    bool ok;

    choose_setup(&setup, order->seed);
    l.w = world_new(order->seed, &setup, "sim-flips", &options, counts);
    remember_states(&l);
    ok = make_live(&l, check);
    if (!ok)
        printf("FAIL: no journal could be made of seed %" PRIu64 "\n", order->seed);
    l.journal = memory_get(JOURNAL_BYTES);
    memcpy(l.journal, l.w->journal.cache, JOURNAL_BYTES);
    l.view = memory_get(l.w->model.state_bytes);
    ok = ok && look(&l, see_record);
    if (ok && (l.unharmed != 1 || l.vouched_lsn == 0)) {
        puts("FAIL: the journal is not what it should be before it is damaged");
        ok = false;
    }
    l.unharmed = 0;
    if (ok && order->sectors)
        ok = spoil_all(&l, order);
    else if (ok && order->one)
        ok = flip(&l, order->bit % JOURNAL_BITS);
    for (uint64_t bit = order->shard;
         ok && !order->sectors && !order->one && bit < JOURNAL_BITS;
         bit += order->shards, done++)
        ok = flip(&l, bit);
    printf("%" PRIu64 " bits flipped; in all %" PRIu64 " unharmed, %" PRIu64
           " damage reported, %" PRIu64 " cut to an older state, %" PRIu64
           " without a superblock; %u changes in the journal's life\n",
           done, l.unharmed, l.reported, l.cut, l.no_super, l.w->model.count);
    for (uint32_t k = 0; k < l.state_count; k++)
        free(l.states[k]);
    free(l.states);
    free(l.journal);
    free(l.view);
    check_free(check);
    world_free(l.w);
    return ok;
}

static void parse(struct order *order, int argc, char *argv[])
{
    static const struct option longs[] = {
        {"seed", required_argument, NULL, 's'},
        {"shard", required_argument, NULL, 'h'},
        {"sectors", no_argument, NULL, 'x'},
        {"bit", required_argument, NULL, 'b'},
        {"planted", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, '?'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 's':
            order->seed = outcome_number(optarg);
            break;
        case 'h':
            if (!outcome_shard(optarg, &order->shard, &order->shards)) {
                fputs("sim-flips: --shard wants I/N\n", stderr);
                exit(2);
            }
            break;
        case 'x':
            order->sectors = true;
            break;
        case 'b':
            order->one = true;
            order->bit = outcome_number(optarg);
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
    struct order order = {.seed = 1, .shards = 1};

    outcome_begin();
    parse(&order, argc, argv);
    return outcome_end(run(&order, &counts));
}
