/* sim: runs worlds of the simulator.  --help says how. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "outcome.h"
#include "world.h"

static const char usage[] =
    "usage: sim [OPTION]...\n"
    "Runs the core on a simulated disk, cuts the power at every event, and checks what is "
    "left.\n"
    "\n"
    "  --seed N          the first seed (default 1)\n"
    "  --seeds COUNT     so many seeds from there (default 1)\n"
    "  --states COUNT    go on with further seeds until so many crash states were checked\n"
    "  --part N          part N (1 to 4) of what the test suite runs, or all of them\n"
    "  --samples COUNT   sampled crash states an event (default 6)\n"
    "  --event N         check only at this event of the seed\n"
    "  --state NAME      and only this state, as a failure names it\n"
    "  --seconds N       stop after the seed that is under way then\n"
    "  --planted N       with planted bug N (the simulator's own core only): succeeds if it "
    "is\n"
    "                    found\n"
    "  --need-all        fail if something that matters was never met (a lap, a torn "
    "sector...)\n"
    "  -v                tell the story\n"
    "\n"
    "Prints a line for what it did; exit code 0: nothing found, 1: a failure, with a line "
    "that\n"
    "replays it.\n";

/* A run that never met a situation says nothing about it. */
static bool met_all(const struct world_counts *c)
{
    const struct {
        const char *name;
        uint64_t count;
    } needed[] = {
        {"kills", c->kills},
        {"power cuts", c->power_cuts},
        {"clean stops", c->stops},
        {"listed states", c->states_listed},
        {"torn sectors", c->states_scribbled},
        {"drained states", c->states_drained},
        {"replayed states", c->states_replayed},
        {"split requests", c->splits},
        {"flushes", c->flushes},
        {"FUA", c->fuas},
        {"reads of the journal", c->journal_reads},
        {"checkpoints", c->checkpoints},
        {"ends of the ring", c->pads},
        {"waits for space", c->space_waits},
        {"EPOCH records without room", c->epoch_checkpoints},
        {"submissions", c->submits},
        {"gaps behind commits", c->gaps},
        {"faults", c->faults},
        {"aborts", c->aborts},
        {"records carried", c->carried},
        {"offline replays", c->replays},
        {"bypassing writes", c->bypassed},
        {"large writes that had to be journaled", c->bypass_journaled},
        {"waits for a claimed range", c->claim_waits},
        {"lost disks", c->disks_lost},
    };
    bool all = true;

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (needed[i].count == 0) {
            printf("FAIL: this run never met: %s\n", needed[i].name);
            all = false;
        }
    }
    return all;
}

/* With what all workloads of three operations add: more than five million crash states. */
#define PARTS 4
#define PART_STATES 600000

struct run {
    uint64_t seed, seeds, states, seconds;
    unsigned part;
    bool all_parts, need_all;
    struct world_options options;
};

static void parse(struct run *run, int argc, char *argv[])
{
    static const struct option longs[] = {
        {"seed", required_argument, NULL, 's'},    {"seeds", required_argument, NULL, 'n'},
        {"states", required_argument, NULL, 't'},  {"part", required_argument, NULL, 'q'},
        {"samples", required_argument, NULL, 'p'}, {"event", required_argument, NULL, 'e'},
        {"state", required_argument, NULL, 'c'},   {"seconds", required_argument, NULL, 'd'},
        {"planted", required_argument, NULL, 'b'}, {"need-all", no_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "vh", longs, NULL)) != -1) {
        switch (option) {
        case 's':
            run->seed = outcome_number(optarg);
            break;
        case 'n':
            run->seeds = outcome_number(optarg);
            break;
        case 't':
            run->states = outcome_number(optarg);
            break;
        case 'q':
            run->all_parts = strcmp(optarg, "all") == 0;
            if (!run->all_parts)
                run->part = outcome_number(optarg);
            if (!run->all_parts && (run->part < 1 || run->part > PARTS)) {
                fprintf(stderr, "sim: parts are 1 to %d, or all\n", PARTS);
                exit(2);
            }
            break;
        case 'p':
            run->options.samples = outcome_number(optarg);
            break;
        case 'e':
            run->options.only_event = true;
            run->options.event = outcome_number(optarg);
            break;
        case 'c':
            run->options.state = optarg;
            break;
        case 'd':
            run->seconds = outcome_number(optarg);
            break;
        case 'b':
            outcome_plant(optarg);
            break;
        case 'a':
            run->need_all = true;
            break;
        case 'v':
            run->options.verbose = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
}

/* Runs worlds until enough was seen.  False: a failure. */
static bool run_worlds(const struct run *run, uint64_t seed, uint64_t states,
                       struct world_counts *counts)
{
    uint64_t before = outcome_states(counts);
    time_t end = time(NULL) + (time_t)run->seconds;

    for (uint64_t n = 0; n < run->seeds || outcome_states(counts) - before < states; n++) {
        if (run->seconds != 0 && time(NULL) >= end)
            break;
        if (!world_run(seed + n, &run->options, counts))
            return false;
    }
    return true;
}

/* What the test suite runs, in parts that can go on side by side.  The same seeds each time. */
static bool run_part(const struct run *run, unsigned part, struct world_counts *counts)
{
    return run_worlds(run, (part - 1) * UINT64_C(100000) + 1, PART_STATES, counts);
}

int main(int argc, char *argv[])
{
    struct run run = {.seed = 1, .seeds = 1, .options = {.samples = 6}};
    static struct world_counts counts;
    bool ok = true;

    outcome_begin();
    parse(&run, argc, argv);
    if (run.all_parts) {
        for (unsigned part = 1; ok && part <= PARTS; part++)
            ok = run_part(&run, part, &counts);
    } else if (run.part != 0) {
        ok = run_part(&run, run.part, &counts);
    } else {
        ok = run_worlds(&run, run.seed, run.states, &counts);
    }
    outcome_print(&counts);
    if (ok && run.need_all)
        ok = met_all(&counts);
    return outcome_end(ok);
}
