/* options: what the user asked for. */
#ifndef NBDLOAD_OPTIONS_H
#define NBDLOAD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verify.h"

enum pattern {
    PATTERN_FLUSH,
    PATTERN_FUA,
    PATTERN_ASYNC,
    PATTERN_MIXED,
    PATTERN_READ,
    PATTERN_SEQ,
    PATTERN_FINAL_FLUSH,
    PATTERN_FLUSH_ONLY,
    PATTERN_TRACE,
    PATTERNS
};

extern const char *const pattern_name[PATTERNS];

#define SIZE_CHOICES_MAX 16
#define SIZE_MAX_BYTES (32u << 20) /* what every server takes */

struct size_choice {
    uint32_t bytes;
    unsigned weight;
};

struct options {
    char **uris;
    size_t uri_count;

    unsigned clients;     /* in all, shared out over the URIs in turn */
    unsigned connections; /* of each client */
    unsigned in_flight;   /* on each connection */

    enum pattern pattern;
    const char *trace;     /* the file */
    unsigned read_percent; /* mixed */
    unsigned flush_every;  /* writes of a client between two flushes; 0: only at the end */
    struct size_choice sizes[SIZE_CHOICES_MAX];
    size_t size_count;
    uint32_t size_max;               /* of a request */
    uint64_t align;                  /* of offsets; 0: to the request's size */
    uint64_t range_start, range_end; /* range_end 0: the end of the export */
    uint64_t seed;

    uint64_t think_ns;
    double rate; /* operations per second of all clients; 0: closed loop */
    bool poisson;

    uint64_t duration_ns; /* 0: no end in time */
    uint64_t count;       /* operations of each client; 0: no end by number */
    uint64_t warmup_ns;   /* not measured */
    uint64_t stall_ns;    /* without any answer for so long: give up */

    bool json;
    bool quiet;
    const char *report;  /* null: none */
    const char *control; /* socket on which the server tells of itself; null: none */

    const char *ledger; /* null: nothing is verified */
    struct verify_options check;
};

/* Ends the program with EXIT_USAGE when they make no sense. */
void options_parse(struct options *options, int argc, char **argv);

/* What a trace demands of the other options; ends the program if they can't be met. */
struct trace;
void options_fit_trace(struct options *options, const struct trace *trace);

#endif
