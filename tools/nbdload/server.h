/* server: what the server says about the load (nbdkit-journal-plugin(1), CONTROL).
 *
 * A thread of its own asks, so that the load is not disturbed: at the begin, ten times a second
 * (less often in a long run, so that the number of samples is bounded), and at the end. */
#ifndef NBDLOAD_SERVER_H
#define NBDLOAD_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "ask.h"
#include "rates.h"

#define SERVER_SAMPLES_MAX 1024

struct server_sample {
    uint64_t ns; /* of clock_ns */
    uint64_t commits,
        flushes; /* commits that were waited for, and flushes that they answered */
};

struct server {
    const char *socket;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ended; /* [lock] */
    /* The thread's, until it has ended: */
    uint64_t interval_ns;
    json_t *first, *last;
    char why[ASK_WHY_BYTES]; /* the last answer that did not come; "" */
    struct server_sample samples[SERVER_SAMPLES_MAX];
    unsigned sample_count;
};

/* Asks once: -1 and reported if there is no answer.  Then the thread goes on. */
int server_begin(struct server *s, const char *socket);
void server_end(struct server *s);
void server_free(struct server *s);

/* Between the first and the last answer. */
struct rates server_rates(const struct server *s);
double server_flushes_per_commit(const struct server *s);

/* The j-th piece of the run, between two samples: when it was (seconds after start_ns), flushes per commit and
 * commits per second.  False: there is none, or nothing was committed in it. */
bool server_piece(const struct server *s, unsigned j, uint64_t start_ns, double *seconds,
                  double *flushes_per_commit, double *commits_per_second);

#endif
