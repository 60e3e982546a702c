/* workloads: runs all workloads of a length, or some (workload.h).  --help says how. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outcome.h"
#include "workload.h"

static const char usage[] =
    "usage: sim-workloads [OPTION]...\n"
    "Runs the core through all workloads of few operations, and cuts the power everywhere.\n"
    "\n"
    "  --length N        all workloads of N operations (default 3) ...\n"
    "  --from A --to B   ... from number A up to, without, number B\n"
    "  --shard I/N       ... every N-th of them, from I on (0 to N-1)\n"
    "  --ops A,B,...     only this one; --list names the operations\n"
    "  --beside          no request waits for the one before it\n"
    "  --power-cut       it ends so, not by kill -9 (only with --ops)\n"
    "  --seed N          how they are carried out (default 1)\n"
    "  --samples COUNT   sampled crash states an event (default 4)\n"
    "  --look WHERE      end, last (default: events of the last operation) or all\n"
    "  --event N, --state NAME   only that, as a failure names it\n"
    "  --planted N       with planted bug N (small core only): succeeds if it is found\n"
    "  --list            the operations, by number\n"
    "  -v                tell the story\n"
    "\n"
    "Exit code 0: nothing found, 1: a failure, with a line that replays it.\n";

struct order {
    unsigned length;
    uint64_t from, to, shard, shards;
    struct workload one;
    enum workload_look look;
    struct world_options options;
};

static int list(void)
{
    for (unsigned op = 0; op < workload_op_count(); op++)
        printf("%2u  %s\n", op, workload_op_name(op));
    return 0;
}

static void misuse(const char *what)
{
    fprintf(stderr, "sim-workloads: %s\n", what);
    exit(2);
}

static void parse(struct order *order, int argc, char *argv[])
{
    static const struct option longs[] = {
        {"length", required_argument, NULL, 'n'},  {"from", required_argument, NULL, 'f'},
        {"to", required_argument, NULL, 't'},      {"shard", required_argument, NULL, 'h'},
        {"ops", required_argument, NULL, 'o'},     {"beside", no_argument, NULL, 'b'},
        {"power-cut", no_argument, NULL, 'c'},     {"seed", required_argument, NULL, 's'},
        {"samples", required_argument, NULL, 'm'}, {"look", required_argument, NULL, 'k'},
        {"event", required_argument, NULL, 'e'},   {"state", required_argument, NULL, 'x'},
        {"planted", required_argument, NULL, 'p'}, {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, '?'},          {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
        switch (option) {
        case 'n':
            order->length = outcome_number(optarg);
            if (order->length < 1 || order->length > WORKLOAD_MAX)
                misuse("--length: that many can't be");
            break;
        case 'f':
            order->from = outcome_number(optarg);
            break;
        case 't':
            order->to = outcome_number(optarg);
            break;
        case 'h':
            if (!outcome_shard(optarg, &order->shard, &order->shards))
                misuse("--shard wants I/N");
            break;
        case 'o':
            if (!workload_parse(&order->one, optarg))
                misuse("--ops: numbers of --list, joined by commas");
            break;
        case 'b':
            order->one.side_by_side = true;
            break;
        case 'c':
            order->one.fate = FATE_POWER;
            break;
        case 's':
            order->one.seed = outcome_number(optarg);
            break;
        case 'm':
            order->options.samples = outcome_number(optarg);
            break;
        case 'k':
            order->look = strcmp(optarg, "end") == 0   ? LOOK_END
                          : strcmp(optarg, "all") == 0 ? LOOK_ALL
                                                       : LOOK_LAST;
            break;
        case 'e':
            order->options.only_event = true;
            order->options.event = outcome_number(optarg);
            order->look = LOOK_ALL;
            break;
        case 'x':
            order->options.state = optarg;
            break;
        case 'p':
            outcome_plant(optarg);
            break;
        case 'l':
            exit(list());
        case 'v':
            order->options.verbose = true;
            break;
        default:
            fputs(usage, optopt == 0 ? stdout : stderr);
            exit(optopt == 0 ? 0 : 2);
        }
    }
}

static uint64_t power(uint64_t base, unsigned exponent)
{
    uint64_t product = 1;

    while (exponent-- > 0)
        product *= base;
    return product;
}

/* All of a length, by number: the first operation is its highest digit. */
static bool run_all(const struct order *order, struct world_counts *counts)
{
    uint64_t all = power(workload_op_count(), order->length), done = 0;
    uint64_t to = order->to != 0 && order->to < all ? order->to : all;
    bool ok = true;

    for (uint64_t n = order->from + order->shard; ok && n < to; n += order->shards) {
        struct workload workload = order->one;
        uint64_t digits = n;

        workload.count = order->length;
        for (unsigned i = order->length; i-- > 0; digits /= workload_op_count())
            workload.ops[i] = digits % workload_op_count();
        workload.seed = rng_mix(order->one.seed ^ rng_mix(n + 1)) % 1000000000;
        workload.fate = rng_mix(workload.seed) % 3 == 0 ? FATE_KILL : FATE_POWER;
        ok = workload_run(&workload, order->look, NULL, &order->options, counts, NULL);
        done++;
    }
    printf("%" PRIu64 " of %" PRIu64 " workloads of %u operations\n", done, all, order->length);
    return ok;
}

int main(int argc, char *argv[])
{
    static struct world_counts counts;
    struct order order = {
        .length = 3,
        .shards = 1,
        .one = {.seed = 1, .fate = FATE_KILL},
        .look = LOOK_LAST,
        .options = {.samples = 4},
    };
    bool ok;

    outcome_begin();
    parse(&order, argc, argv);
    if (order.one.count > 0)
        ok = workload_run(&order.one, order.look, NULL, &order.options, &counts, NULL);
    else
        ok = run_all(&order, &counts);
    outcome_print(&counts);
    return outcome_end(ok);
}
