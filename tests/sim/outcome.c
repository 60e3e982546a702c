/* outcome: see outcome.h. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outcome.h"
#include "report.h"

#ifdef PLANTED_AT_RUN_TIME
int planted_bug;
#else
static int planted_bug;
#endif

/* An assertion or a wild pointer in the core: say which world it was. */
static void died(int signal_number)
{
    char line[400];
    int length;

    if (world_current != NULL) {
        length = snprintf(line, sizeof(line),
                          "FAIL: the program died of signal %d\nreplay: ", signal_number);
        if (world_current->scripted != NULL)
            length +=
                snprintf(line + length, sizeof(line) - length, "%s", world_current->scripted);
        else
            length += snprintf(line + length, sizeof(line) - length, "sim --seed %" PRIu64,
                               world_current->seed);
        length += snprintf(line + length, sizeof(line) - length, " --event %" PRIu64 " -v\n",
                           world_current->event);
        if (write(STDOUT_FILENO, line, length) < 0)
            _exit(1);
    }
    if (planted_bug != 0) /* found */
        _exit(0);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void __attribute__((format(printf, 2, 0)))
print_report(enum report_level level, const char *format, va_list args)
{
    (void)level;
    if (world_current == NULL || !world_current->verbose)
        return;
    printf("    says: ");
    vprintf(format, args);
    putchar('\n');
}

uint64_t outcome_states(const struct world_counts *c)
{
    return c->states_kill + c->states_listed + c->states_sampled;
}

void outcome_print(const struct world_counts *c)
{
    printf("%" PRIu64 " crash states: %" PRIu64 " kills, %" PRIu64 " listed and %" PRIu64
           " sampled power cuts (%" PRIu64 " torn inside sectors); %" PRIu64
           " with records to replay, %" PRIu64 " drained\n",
           outcome_states(c), c->states_kill, c->states_listed, c->states_sampled,
           c->states_scribbled, c->states_replayed, c->states_drained);
    printf("%" PRIu64 " worlds, %" PRIu64 " lives (ended by %" PRIu64 " kills, %" PRIu64
           " power cuts, %" PRIu64 " clean stops), %" PRIu64 " events of %" PRIu64 " steps\n",
           c->worlds, c->lives, c->kills, c->power_cuts, c->stops, c->events, c->steps);
    printf("%" PRIu64 " changes, %" PRIu64 " split requests, %" PRIu64 " flushes, %" PRIu64
           " FUA, %" PRIu64 " reads (%" PRIu64 " pieces from the journal), %" PRIu64
           " commits, %" PRIu64 " checkpoints, %" PRIu64 " ring ends padded, %" PRIu64
           " waits for space, %" PRIu64 " EPOCH records that had to wait, %" PRIu64
           " submissions, %" PRIu64 " faults, %" PRIu64 " aborts, %" PRIu64 " carried\n",
           c->changes, c->splits, c->flushes, c->fuas, c->reads, c->journal_reads, c->commits,
           c->checkpoints, c->pads, c->space_waits, c->epoch_checkpoints, c->submits, c->faults,
           c->aborts, c->carried);
    printf("%" PRIu64 " bypassing writes, %" PRIu64 " large ones journaled, %" PRIu64
           " waits for a range, %" PRIu64 " barriers of images, %" PRIu64 " disks lost\n",
           c->bypassed, c->bypass_journaled, c->claim_waits, c->image_flushes, c->disks_lost);
}

uint64_t outcome_number(const char *text)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno != 0 || *end != 0 || text[0] < '0' || text[0] > '9') {
        fprintf(stderr, "'%s' is not a number\n", text);
        exit(2);
    }
    return number;
}

bool outcome_shard(char *text, uint64_t *shard, uint64_t *shards)
{
    char *slash = strchr(text, '/');

    if (slash == NULL)
        return false;
    *slash = 0;
    *shard = outcome_number(text);
    *shards = outcome_number(slash + 1);
    return *shard < *shards;
}

void outcome_plant(const char *number)
{
    planted_bug = outcome_number(number);
#ifndef PLANTED_AT_RUN_TIME
    fputs("this build has no planted bugs: use the -small program\n", stderr);
    exit(2);
#endif
}

void outcome_begin(void)
{
    report_set_sink(print_report);
    signal(SIGABRT, died);
    signal(SIGSEGV, died);
}

int outcome_end(bool ok)
{
    if (planted_bug == 0)
        return ok ? 0 : 1;
    printf("planted bug %d: %s\n", planted_bug, ok ? "NOT FOUND" : "found");
    return ok ? 1 : 0;
}
