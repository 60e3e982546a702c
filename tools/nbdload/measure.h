/* measure: what a run got. */
#ifndef NBDLOAD_MEASURE_H
#define NBDLOAD_MEASURE_H

#include "connection.h"
#include "histogram.h"

/* One piece of the run's time. */
struct slice {
    uint64_t operations, bytes;
    uint64_t latency_sum_ns, latency_max_ns; /* of the operations */
};

#define SLICES_MAX 1024
#define SLICE_NS_FIRST 100000000u

struct failure {
    enum request_kind kind;
    uint64_t offset;
    uint32_t length;
    int error;
    unsigned client, connection;
};

#define FAILURES_KEPT 10

struct measurement {
    uint64_t start_ns;                     /* the measurement's, after the warm-up */
    uint64_t load_end_ns;                  /* the last operation's answer */
    uint64_t flush_start_ns, flush_end_ns; /* of the final flushes; 0: there were none */

    /* An operation is what a client waits for: a write with its flush, for example.  Its
     * latency counts from when it was due. */
    struct histogram operation;
    struct histogram request[REQUEST_KINDS]; /* from sending to the answer */
    struct histogram final_flush;
    uint64_t bytes[REQUEST_KINDS];
    uint64_t operation_bytes; /* during the load */

    /* A slice's length doubles whenever there are too many. */
    struct slice slices[SLICES_MAX];
    unsigned slice_count;
    uint64_t slice_ns;

    /* Of all requests, also those of the warm-up. */
    uint64_t sent, answered, failed, unanswered;
    struct failure failures[FAILURES_KEPT]; /* the first ones */
    uint64_t behind; /* open loop: operations that were due and were not begun */
};

/* Begins anew at this time, but for the counts of all requests. */
void measure_start(struct measurement *m, uint64_t now_ns);

void measure_request(struct measurement *m, const struct request *request);
void measure_operation(struct measurement *m, uint64_t due_ns, uint64_t done_ns,
                       uint64_t bytes);

void measure_failure(struct measurement *m, const struct request *request, unsigned client);

#endif
