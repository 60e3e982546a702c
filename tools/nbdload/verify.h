/* verify: does the server hold what the ledger says it owes?
 *
 * After a crash, or before a run goes on.  Every sector that the ledger knows is read once.
 *
 *   P0  kill -9: not older than the newest answered write
 *   P1  not older than the newest flushed write
 *   P2  power cut: no answered write is lost while one that was sent after its answer is there
 *   P3  a request is there with all its sectors (or newer ones), or with none
 *   P7  no sector holds what is not one of its versions, or one that was gone before
 */
#ifndef NBDLOAD_VERIFY_H
#define NBDLOAD_VERIFY_H

#include <argp.h>
#include <jansson.h>

#include "ledger.h"

enum order_scope {
    ORDER_NONE,
    ORDER_DISK,
    ORDER_ALL, /* all disks are cut at the same point */
};

/* How much a server has promised. */
struct verify_options {
    bool power;      /* only what was flushed */
    uint64_t atomic; /* requests smaller than this keep P2 and P3 */
    enum order_scope order;
    uint64_t stall_ns;
    bool quiet;
};

/* For the command lines of a run and of the command; its input is a struct verify_options. */
extern const struct argp verify_argp;
void verify_options_init(struct verify_options *options);

enum promise { P0, P1, P2, P3, P7, PROMISES };

struct violation {
    enum promise promise;
    uint32_t disk;
    uint64_t offset;
    uint64_t from, to; /* the versions that are right */
    const char *what;
    char found[200];
};

#define VIOLATIONS_KEPT 1000

struct verification {
    uint64_t sectors;    /* looked at */
    uint64_t lost;       /* answered and not flushed, not there after a power cut: allowed */
    uint64_t unanswered; /* there without having been answered: allowed */
    uint64_t broken[PROMISES];
    struct violation *violations;
    size_t violation_count;
    char run_broken[2048]; /* what the run itself had found */
};

/* Connects to the disks; opens the ledger for them, or makes one (`create`).  `start` and `end` are
 * the range of a new one.  0 or an exit code; reported. */
int verify_open(struct ledger *ledger, const char *path, char **uris, size_t count, bool create,
                uint64_t start, uint64_t end, const struct verify_options *options);

/* Looks at all sectors; when nothing is broken the ledger is settled: what was found is from now
 * on what is owed.  0 or an exit code; only what kept it from looking is reported. */
int verify_disks(struct ledger *ledger, char **uris, const struct verify_options *options,
                 struct verification *result);

bool verification_good(const struct verification *result);
void verification_print(const struct verification *result, const struct verify_options *options,
                        char **uris);
json_t *verification_json(const struct verification *result,
                          const struct verify_options *options);
void verification_free(struct verification *result);

/* nbdload verify ...; its exit code. */
int verify_main(int argc, char **argv);

#endif
