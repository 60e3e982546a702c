/* load_setup: clients, connections and lanes of a load, and whether a server can take it. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "exit_code.h"
#include "load_setup.h"

/* Of random bytes to write there are so many more than the largest request has, so that each
 * write begins elsewhere. */
#define POOL_EXTRA (POOL_STARTS * 8)

/* ---- what the server says ---- */

void load_fail(struct load *load, int refused, const char *format, ...)
{
    va_list args;

    if (load->gone[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(load->gone, sizeof load->gone, format, args);
    va_end(args);
    load->refused = refused;
}

/* The first connection to an export says how large it is. */
static bool target_fit(struct load *load, struct target *target, int64_t size)
{
    const struct options *o = load->options;
    uint64_t part;

    target->size = size;
    target->start = o->range_start;
    target->end = o->range_end != 0 ? o->range_end : target->size;
    if (target->disk != NULL) {
        target->start = target->disk->start;
        target->end = target->disk->end;
    }
    if (target->end > target->size || target->start >= target->end ||
        target->end - target->start < o->size_max) {
        load_fail(load, EXIT_USAGE,
                  "%s: its %" PRIu64 " bytes are too few for the range and block size",
                  target->uri, target->size);
        return false;
    }
    if (load->trace != NULL &&
        (load->trace->end > target->end || load->trace->begin < target->start)) {
        load_fail(load, EXIT_USAGE,
                  "%s: the trace is for bytes %" PRIu64 " to %" PRIu64
                  ", and there are %" PRIu64 " to %" PRIu64,
                  target->uri, load->trace->begin, load->trace->end, target->start,
                  target->end);
        return false;
    }
    part = (target->end - target->start) / target->clients;
    if (o->pattern == PATTERN_SEQ && part < o->size_max) {
        load_fail(load, EXIT_USAGE,
                  "%s: the range from %" PRIu64 " to %" PRIu64 " is too small for %u clients",
                  target->uri, target->start, target->end, target->clients);
        return false;
    }
    /* In seq each client has a part of its own. */
    part -= part % o->size_max;
    for (unsigned i = 0, n = 0; i < o->clients; i++) {
        struct client *client = &load->clients[i];
        if (client->target != target)
            continue;
        client->part_start = client->part_next = target->start + n++ * part;
        client->part_end = client->part_start + part;
    }
    return true;
}

bool load_accept(struct load *load, struct connection *c)
{
    struct lane *lane = &load->lanes[c->number * load->options->in_flight];
    struct target *target = lane->client->target;
    int64_t size = nbd_get_size(c->nbd);
    uint64_t wanted = target->disk != NULL ? target->disk->size : target->size;

    if (size < 0) {
        load_fail(load, 0, "%s: %s", target->uri, nbd_get_error());
        return false;
    }
    if (load->options->pattern != PATTERN_READ && nbd_is_read_only(c->nbd) > 0) {
        load_fail(load, EXIT_USAGE, "%s: the export is read-only", target->uri);
        return false;
    }
    /* Without it a flush covers only what its own connection wrote; the ledger believes more. */
    if (target->disk != NULL && target->connections > 1 && nbd_can_multi_conn(c->nbd) <= 0) {
        load_fail(load, EXIT_USAGE,
                  "%s: several connections can't be verified, as the server does not promise "
                  "that a flush of one covers the others",
                  target->uri);
        return false;
    }
    /* A server that changes its mind between two connections is not one to measure. */
    if (wanted != 0 && (uint64_t)size != wanted) {
        load_fail(load, 0, "%s: the size was %" PRIu64 " bytes and is now %" PRId64,
                  target->uri, wanted, size);
        return false;
    }
    return target->end != 0 || target_fit(load, target, size);
}

/* ---- making and freeing ---- */

/* As many descriptors as we may have. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        fprintf(stderr, "nbdload: out of memory\n");
        exit(EXIT_USAGE);
    }
    return memory;
}

static void lane_make(struct load *load, struct client *client, uint32_t number)
{
    const struct options *o = load->options;
    struct lane *lane = &load->lanes[number];
    bool reads = o->pattern == PATTERN_READ || o->pattern == PATTERN_MIXED ||
                 o->pattern == PATTERN_TRACE;

    lane->load = load;
    lane->client = client;
    lane->number = number;
    lane->connection = &load->connection[number / o->in_flight];
    lane->random.state = o->seed * 0x9e3779b97f4a7c15u + number;
    if (load->ledger != NULL) /* a run that goes on does not repeat the one before */
        lane->random.state ^= ledger_event(load->ledger) << 32;
    lane->random.state = random_next(&lane->random);
    if (load->ledger != NULL || reads)
        lane->buffer = allocate(1, o->size_max);
    if (load->ledger != NULL)
        lane->floors = allocate(o->size_max / SECTOR, sizeof *lane->floors);
}

static void pool_fill(struct load *load, size_t size)
{
    load->random.state = load->options->seed;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word = random_next(&load->random);
        memcpy(load->pool + i, &word, 8);
    }
}

void load_init(struct load *load, const struct options *options, struct ledger *ledger,
               const struct trace *trace)
{
    const struct options *o = options;
    size_t pool_size = (o->size_max + POOL_EXTRA) / 8 * 8 + 8;
    unsigned lanes_each = o->connections * o->in_flight;

    memset(load, 0, sizeof *load);
    load->options = o;
    load->ledger = ledger;
    load->trace = trace;
    load->connection_count = (size_t)o->clients * o->connections;
    load->lane_count = load->connection_count * o->in_flight;
    load->targets = allocate(o->uri_count, sizeof *load->targets);
    load->clients = allocate(o->clients, sizeof *load->clients);
    load->connection = allocate(load->connection_count, sizeof *load->connection);
    load->lanes = allocate(load->lane_count, sizeof *load->lanes);
    load->pool = allocate(1, pool_size);
    pool_fill(load, pool_size);
    for (size_t i = 0; i < o->size_count; i++)
        load->weight_sum += o->sizes[i].weight;
    for (size_t i = 0; i < o->uri_count; i++) {
        load->targets[i].uri = o->uris[i];
        load->targets[i].disk = ledger == NULL ? NULL : &ledger->disks[i];
    }
    for (unsigned i = 0; i < o->clients; i++) {
        struct client *client = &load->clients[i];

        client->number = i;
        client->target = &load->targets[i % o->uri_count];
        client->target->clients++;
        client->target->connections += o->connections;
        client->lanes = &load->lanes[(size_t)i * lanes_each];
        client->lane_count = lanes_each;
        for (unsigned j = 0; j < lanes_each; j++)
            lane_make(load, client, i * lanes_each + j);
    }
    for (size_t i = 0; i < load->connection_count; i++) {
        load->connection[i].owner = load;
        load->connection[i].number = i;
    }
    raise_limits();
}

void load_destroy(struct load *load)
{
    load->phase = LOAD_ENDED;
    for (size_t i = 0; i < load->connection_count; i++)
        connection_close(&load->connection[i]);
    if (load->loop != NULL) {
        timers_stop(&load->timers, load->loop);
        ev_loop_destroy(load->loop);
    }
    for (size_t i = 0; i < load->lane_count; i++) {
        struct lane *lane = &load->lanes[i];
        /* Given up on. */
        if (lane->accounted && lane->request.kind == REQUEST_FLUSH)
            ledger_flush_end(lane->client->target->disk, &lane->flush, false);
        free(lane->buffer);
        free(lane->floors);
    }
    free(load->targets);
    free(load->clients);
    free(load->connection);
    free(load->lanes);
    free(load->pool);
}
