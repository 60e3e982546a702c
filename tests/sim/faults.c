/* faults: workloads in which one call of I/O fails, each call in turn, in each way, once and for
 * ever, and a crash after it (fault.c, workload.h).  --help says how. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outcome.h"
#include "workload.h"

static const char usage[] =
    "usage: sim-faults [OPTION]...\n"
    "Runs workloads in which one call of I/O fails: each one, in each way, and then a crash.\n"
    "\n"
    "  --workloads N   so many (default 40)\n"
    "  --rounds N      each so many times, carried out otherwise (default 1)\n"
    "  --seed N        of the first round (default 1)\n"
    "  --shard I/N     every N-th workload of a round, from I on (0 to N-1)\n"
    "  --planted N     with planted bug N (small core only): succeeds if it is found\n"
    "and to replay one:\n"
    "  --workload N --call N --kind N [--for-ever] [--power-cut] [--event N [--state NAME]] "
    "-v\n"
    "\n"
    "Exit code 0: nothing found, 1: a failure, with a line that replays it.\n";

#define WORKLOAD_OPS 6

static const char *const kind_names[IO_FAULT_KINDS] = {
    [IO_EIO] = "EIO",           [IO_ENOSPC] = "ENOSPC",      [IO_EINTR] = "EINTR",
    [IO_SHORT] = "short write", [IO_LATE] = "delayed error", [IO_LIES] = "fsync lies",
};

struct order {
    uint64_t workloads, rounds, seed, shard, shards;
    bool one; /* to replay */
    uint64_t number;
    struct io_fault fault;
    enum fate fate;
    struct world_options options;
};

struct tally {
    uint64_t runs, struck, calls;
    uint64_t of_kind[IO_FAULT_KINDS];
};

/* Mostly requests, by chance: the same for a number in each round. */
static void workload_make(struct workload *workload, uint64_t number, uint64_t seed)
{
    struct rng rng = rng_stream(number, 77, 1);

    *workload = (struct workload){
        .count = WORKLOAD_OPS,
        .side_by_side = number % 2 == 1,
        .seed = rng_mix(seed ^ rng_mix(number + 1)) % 1000000000,
    };
    for (unsigned i = 0; i < WORKLOAD_OPS; i++)
        workload->ops[i] = rng_below(&rng, workload_op_count());
}

/* What to add to the replay of the workload alone. */
static void say_replay(const struct order *order, uint64_t number, uint64_t seed,
                       const struct io_fault *fault, enum fate fate)
{
    (void)order;
    printf("replay: sim-faults --workload %" PRIu64 " --seed %" PRIu64 " --call %" PRIu64
           " --kind %d%s%s -v   (%s)\n",
           number, seed, fault->at, fault->kind, fault->for_ever ? " --for-ever" : "",
           fate == FATE_POWER ? " --power-cut" : "", kind_names[fault->kind]);
}

static bool run_one(const struct order *order, uint64_t number, uint64_t seed,
                    const struct io_fault *fault, enum fate fate, struct world_counts *counts)
{
    struct workload workload;
    bool ok;

    workload_make(&workload, number, seed);
    workload.fate = fate;
    ok = workload_run(&workload, order->options.only_event ? LOOK_ALL : LOOK_END, fault,
                      &order->options, counts, NULL);
    if (!ok)
        say_replay(order, number, seed, fault, fate);
    return ok;
}

/* Each call of it, in each way.  The calls before the one that fails are always the same. */
static bool run_workload(const struct order *order, uint64_t number, uint64_t seed,
                         struct world_counts *counts, struct tally *tally)
{
    struct workload workload;
    uint64_t calls;
    bool ok;

    workload_make(&workload, number, seed);
    workload.fate = FATE_POWER;
    ok = workload_run(&workload, LOOK_END, NULL, &order->options, counts, &calls);
    tally->calls += calls;
    for (uint64_t at = 1; ok && at <= calls; at++) {
        for (unsigned way = 0; ok && way < 4 * IO_FAULT_KINDS; way++) {
            struct io_fault fault = {.at = at, .kind = way / 4, .for_ever = way % 2 == 1};
            uint64_t before = counts->faults;

            ok = run_one(order, number, seed, &fault, way / 2 % 2 == 0 ? FATE_POWER : FATE_KILL,
                         counts);
            tally->runs++;
            tally->struck += counts->faults > before;
            tally->of_kind[fault.kind]++;
        }
    }
    return ok;
}

static void parse(struct order *order, int argc, char *argv[])
{
    static const struct option longs[] = {
        {"workloads", required_argument, NULL, 'w'},
        {"rounds", required_argument, NULL, 'r'},
        {"seed", required_argument, NULL, 's'},
        {"shard", required_argument, NULL, 'h'},
        {"planted", required_argument, NULL, 'p'},
        {"workload", required_argument, NULL, 'o'},
        {"call", required_argument, NULL, 'c'},
        {"kind", required_argument, NULL, 'k'},
        {"for-ever", no_argument, NULL, 'f'},
        {"power-cut", no_argument, NULL, 'u'},
        {"event", required_argument, NULL, 'e'},
        {"state", required_argument, NULL, 'x'},
        {"help", no_argument, NULL, '?'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
        switch (option) {
        case 'w':
            order->workloads = outcome_number(optarg);
            break;
        case 'r':
            order->rounds = outcome_number(optarg);
            break;
        case 's':
            order->seed = outcome_number(optarg);
            break;
        case 'h':
            if (!outcome_shard(optarg, &order->shard, &order->shards)) {
                fputs("sim-faults: --shard wants I/N\n", stderr);
                exit(2);
            }
            break;
        case 'p':
            outcome_plant(optarg);
            break;
        case 'o':
            order->one = true;
            order->number = outcome_number(optarg);
            break;
        case 'c':
            order->fault.at = outcome_number(optarg);
            break;
        case 'k':
            order->fault.kind = outcome_number(optarg) % IO_FAULT_KINDS;
            break;
        case 'f':
            order->fault.for_ever = true;
            break;
        case 'u':
            order->fate = FATE_POWER;
            break;
        case 'e':
            order->options.only_event = true;
            order->options.event = outcome_number(optarg);
            break;
        case 'x':
            order->options.state = optarg;
            break;
        case 'v':
            order->options.verbose = true;
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
    struct order order = {.workloads = 40,
                          .rounds = 1,
                          .seed = 1,
                          .shards = 1,
                          .fate = FATE_KILL,
                          .options = {.samples = 4}};
    struct tally tally = {0};
    bool ok = true;

    outcome_begin();
    parse(&order, argc, argv);
    if (order.one)
        ok = run_one(&order, order.number, order.seed, &order.fault, order.fate, &counts);
    for (uint64_t round = 0; !order.one && ok && round < order.rounds; round++) {
        for (uint64_t n = order.shard; ok && n < order.workloads; n += order.shards)
            ok = run_workload(&order, n, order.seed + round, &counts, &tally);
    }
    printf("%" PRIu64 " runs, %" PRIu64 " of them with a fault that struck, at %" PRIu64
           " calls;",
           tally.runs, tally.struck, tally.calls);
    for (unsigned kind = 0; kind < IO_FAULT_KINDS; kind++)
        printf(" %s %" PRIu64, kind_names[kind], tally.of_kind[kind]);
    putchar('\n');
    outcome_print(&counts);
    if (ok && !order.one && tally.struck != tally.runs) {
        puts("FAIL: some faults did not strike: the same workload took another way");
        ok = false;
    }
    return outcome_end(ok);
}
