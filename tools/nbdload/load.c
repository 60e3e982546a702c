/* load: see load.h. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "load.h"
#include "progress.h"

static void load_advance(struct load *load);

static struct load *load_of(struct connection *c)
{
    return c->owner;
}

static void load_end(struct load *load)
{
    load->phase = LOAD_ENDED;
    ev_break(load->loop, EVBREAK_ALL);
}

/* ---- what a lane sends ---- */

static uint32_t choose_size(struct lane *lane)
{
    const struct options *o = lane->load->options;
    uint64_t ticket;

    if (o->size_count == 1)
        return o->sizes[0].bytes;
    ticket = random_below(&lane->random, lane->load->weight_sum);
    for (size_t i = 0;; i++) {
        if (ticket < o->sizes[i].weight)
            return o->sizes[i].bytes;
        ticket -= o->sizes[i].weight;
    }
}

static void choose_random_place(struct lane *lane)
{
    const struct options *o = lane->load->options;
    const struct export *export = lane->client->export;
    struct request *r = &lane->request;
    uint64_t align;

    r->length = choose_size(lane);
    align = o->align != 0 ? o->align : r->length;
    r->offset =
        export->start +
        random_below(&lane->random, (export->end - export->start - r->length) / align + 1) *
            align;
}

/* The lanes of a client write one stream together. */
static void choose_next_place(struct lane *lane)
{
    struct client *client = lane->client;
    struct request *r = &lane->request;

    r->length = choose_size(lane);
    if (client->part_next + r->length > client->part_end)
        client->part_next = client->part_start;
    r->offset = client->part_next;
    client->part_next += r->length;
}

/* Something else in each write: a server that compares or deduplicates gets no help. */
static void *choose_payload(struct lane *lane)
{
    return lane->load->pool + random_below(&lane->random, 4096) * 8;
}

static void lane_send(struct lane *lane, enum request_kind kind)
{
    struct request *r = &lane->request;

    r->kind = kind;
    r->buffer = kind == REQUEST_READ ? lane->buffer : choose_payload(lane);
    if (kind == REQUEST_FLUSH) {
        r->offset = r->length = 0;
        lane->client->unflushed = 0;
    } else if (kind != REQUEST_READ) {
        lane->bytes = r->length;
        if (kind != REQUEST_FUA)
            lane->client->unflushed++;
    } else {
        lane->bytes = r->length;
    }
    lane->load->m.sent++;
    connection_send(lane->connection, r);
}

static void lane_begin(struct lane *lane)
{
    const struct options *o = lane->load->options;

    lane->client->begun++;
    lane->bytes = 0;
    if (o->pattern == PATTERN_SEQ)
        choose_next_place(lane);
    else if (o->pattern != PATTERN_FLUSH_ONLY)
        choose_random_place(lane);
    switch (o->pattern) {
    case PATTERN_FLUSH:
    case PATTERN_ASYNC:
    case PATTERN_SEQ:
    case PATTERN_FINAL_FLUSH:
        lane_send(lane, REQUEST_WRITE);
        return;
    case PATTERN_FUA:
        lane_send(lane, REQUEST_FUA);
        return;
    case PATTERN_MIXED:
        lane_send(lane, random_below(&lane->random, 100) < o->read_percent ? REQUEST_READ
                                                                           : REQUEST_WRITE);
        return;
    case PATTERN_READ:
        lane_send(lane, REQUEST_READ);
        return;
    case PATTERN_FLUSH_ONLY:
        lane_send(lane, REQUEST_FLUSH);
        return;
    case PATTERNS:
        break;
    }
    assert(0);
}

/* True: the operation goes on with another request. */
static bool lane_continues(struct lane *lane)
{
    const struct options *o = lane->load->options;

    if (lane->request.kind != REQUEST_WRITE)
        return false;
    switch (o->pattern) {
    case PATTERN_FLUSH:
        return true;
    case PATTERN_ASYNC:
    case PATTERN_MIXED:
        return o->flush_every != 0 && lane->client->unflushed >= o->flush_every;
    default:
        return false;
    }
}

/* ---- when a lane sends ---- */

static uint64_t spread(struct load *load, struct random *random, uint64_t mean_ns)
{
    if (!load->options->poisson)
        return mean_ns;
    return -log(random_unit(random)) * mean_ns;
}

static void lane_rest(struct lane *lane)
{
    assert(!lane->resting);
    timers_cancel(&lane->load->timers, &lane->timer);
    lane->resting = true;
    lane->load->busy--;
}

/* The lane is free: its next operation now, later, or never. */
static void lane_next(struct lane *lane, uint64_t now_ns)
{
    struct load *load = lane->load;
    const struct options *o = load->options;

    if (load->phase > LOAD_RUNNING || (o->count != 0 && lane->client->begun >= o->count)) {
        lane_rest(lane);
        return;
    }
    if (o->rate > 0) {
        lane->due_ns = load->next_due_ns;
        load->next_due_ns += spread(load, &load->random, llround(1e9 / o->rate));
    } else {
        lane->due_ns = now_ns;
        if (o->think_ns > 0)
            lane->due_ns += spread(load, &lane->random, o->think_ns);
    }
    if (lane->due_ns <= now_ns)
        lane_begin(lane);
    else
        timers_set(&load->timers, &lane->timer, lane->due_ns);
}

/* ---- phases ---- */

static void phase_timer_set(struct load *load, uint64_t ns)
{
    timers_cancel(&load->timers, &load->phase_timer);
    timers_set(&load->timers, &load->phase_timer, ns);
}

static void load_measure(struct load *load, uint64_t now_ns)
{
    load->phase = LOAD_RUNNING;
    measure_start(&load->m, now_ns);
    for (unsigned i = 0; i < load->options->clients; i++)
        load->clients[i].done = 0;
    if (load->options->duration_ns != 0)
        phase_timer_set(load, now_ns + load->options->duration_ns);
}

static void load_begin(struct load *load)
{
    const struct options *o = load->options;
    uint64_t now_ns = clock_ns();

    load->begin_ns = load->next_due_ns = now_ns;
    if (o->warmup_ns != 0) {
        load->phase = LOAD_WARMING;
        measure_start(&load->m, now_ns);
        phase_timer_set(load, now_ns + o->warmup_ns);
    } else {
        load_measure(load, now_ns);
    }
    load->busy = load->lane_count;
    for (size_t i = 0; i < load->lane_count; i++)
        lane_next(&load->lanes[i], now_ns);
    load_advance(load);
}

/* Nothing new begins. */
static void load_drain(struct load *load, uint64_t now_ns)
{
    load->phase = LOAD_DRAINING;
    timers_cancel(&load->timers, &load->phase_timer);
    for (size_t i = 0; i < load->lane_count; i++) {
        if (load->lanes[i].timer.set)
            lane_rest(&load->lanes[i]);
    }
    if (load->options->rate > 0 && load->next_due_ns < now_ns)
        load->m.behind = (now_ns - load->next_due_ns) * load->options->rate / 1e9;
}

static bool export_is_unflushed(const struct load *load, const struct export *export)
{
    for (unsigned i = 0; i < load->options->clients; i++) {
        if (load->clients[i].export == export && load->clients[i].unflushed > 0)
            return true;
    }
    return false;
}

/* One flush on every connection whose export has something new, all at once. */
static void load_flush(struct load *load)
{
    size_t in_flight = load->options->in_flight;

    load->phase = LOAD_FLUSHING;
    for (size_t i = 0; i < load->connection_count; i++)
        load->flushing += export_is_unflushed(load, load->lanes[i * in_flight].client->export);
    if (load->flushing == 0) {
        load_end(load);
        return;
    }
    load->m.flush_start_ns = clock_ns();
    /* Which ones is decided before the first is sent, as sending marks a client as flushed. */
    for (size_t i = 0; i < load->connection_count; i++) {
        struct lane *lane = &load->lanes[i * in_flight];
        lane->resting = !export_is_unflushed(load, lane->client->export);
    }
    for (size_t i = 0; i < load->connection_count; i++) {
        struct lane *lane = &load->lanes[i * in_flight];
        if (!lane->resting)
            lane_send(lane, REQUEST_FLUSH);
    }
}

/* After anything that may have ended a phase. */
static void load_advance(struct load *load)
{
    if (load->phase >= LOAD_WARMING && load->phase <= LOAD_DRAINING && load->busy == 0) {
        if (load->signal != 0 || load->gone[0] != '\0')
            load_end(load);
        else
            load_flush(load);
    }
}

/* ---- what happens ---- */

static void on_finished(struct request *request)
{
    struct lane *lane = (void *)((char *)request - offsetof(struct lane, request));
    struct load *load = lane->load;
    struct measurement *m = &load->m;

    switch (request->outcome) {
    case OUTCOME_ANSWERED:
        m->answered++;
        if (load->phase != LOAD_FLUSHING) /* the final flushes are told apart */
            measure_request(m, request);
        break;
    case OUTCOME_FAILED:
        measure_failure(m, request, lane->client->number);
        break;
    case OUTCOME_UNANSWERED:
        m->unanswered++;
        break;
    case OUTCOME_NONE:
        assert(0);
    }
    if (load->phase == LOAD_ENDED)
        return;
    if (load->phase == LOAD_FLUSHING) {
        if (request->outcome == OUTCOME_ANSWERED)
            histogram_record(&m->final_flush, request->done_ns - request->sent_ns);
        m->flush_end_ns = request->done_ns;
        if (--load->flushing == 0)
            load_end(load);
        return;
    }
    if (request->outcome == OUTCOME_ANSWERED && lane_continues(lane)) {
        lane_send(lane, REQUEST_FLUSH);
        return;
    }
    if (request->outcome == OUTCOME_ANSWERED) {
        lane->client->done++;
        measure_operation(m, lane->due_ns, request->done_ns, lane->bytes);
    }
    if (request->outcome == OUTCOME_UNANSWERED)
        lane_rest(lane);
    else
        lane_next(lane, clock_ns());
    load_advance(load);
}

static int export_fit(struct load *load, struct export *export, int64_t size)
{
    const struct options *o = load->options;

    export->size = size;
    export->start = o->range_start;
    export->end = o->range_end != 0 ? o->range_end : export->size;
    if (export->end > export->size || export->start + o->size_max > export->end) {
        snprintf(load->gone, sizeof load->gone,
                 "%s: its %" PRIu64 " bytes are too few for the range and block size",
                 export->uri, export->size);
        return -1;
    }
    if (o->pattern == PATTERN_SEQ &&
        (export->end - export->start) / export->clients < o->size_max) {
        snprintf(load->gone, sizeof load->gone,
                 "%s: its %" PRIu64 " bytes are too few for %u parts", export->uri,
                 export->size, export->clients);
        return -1;
    }
    return 0;
}

/* A server that changes its mind between two connections is not one to measure. */
static int connection_check(struct load *load, struct connection *c)
{
    struct lane *lane = &load->lanes[c->number * load->options->in_flight];
    struct export *export = lane->client->export;
    int64_t size = nbd_get_size(c->nbd);
    bool writes = load->options->pattern != PATTERN_READ;

    if (size < 0) {
        snprintf(load->gone, sizeof load->gone, "%s: %s", export->uri, nbd_get_error());
        return -1;
    }
    if (writes && nbd_is_read_only(c->nbd) > 0) {
        snprintf(load->gone, sizeof load->gone, "%s: the export is read-only", export->uri);
        return -1;
    }
    if (export->end == 0)
        return export_fit(load, export, size);
    if ((uint64_t)size != export->size) {
        snprintf(load->gone, sizeof load->gone,
                 "%s: the size was %" PRIu64 " bytes and is now %" PRId64, export->uri,
                 export->size, size);
        return -1;
    }
    return 0;
}

static void clients_share_out(struct load *load)
{
    const struct options *o = load->options;

    for (unsigned i = 0; i < o->clients; i++) {
        struct client *client = &load->clients[i];
        const struct export *export = client->export;
        uint64_t part = (export->end - export->start) / export->clients;

        part -= part % o->size_max;
        /* Client i is the i / uri_count'th of its export. */
        client->part_start = client->part_next = export->start + i / o->uri_count * part;
        client->part_end = client->part_start + part;
    }
}

/* Not all at once: a listening socket's queue is short (10 in nbd-server), and on a Unix socket the
 * next one is refused then. */
#define CONNECTING_MAX 4

static void load_connect(struct load *load)
{
    while (load->opened < load->connection_count &&
           load->opened < load->ready + CONNECTING_MAX) {
        struct connection *c = &load->connection[load->opened++];
        struct lane *lane = &load->lanes[c->number * load->options->in_flight];
        const char *uri = lane->client->export->uri;

        if (connection_open(c, &load->connections, uri) < 0) {
            snprintf(load->gone, sizeof load->gone, "%s: %s", uri, c->why);
            load_end(load);
            return;
        }
    }
}

static void on_ready(struct connection *c)
{
    struct load *load = load_of(c);

    if (load->phase != LOAD_CONNECTING)
        return;
    if (connection_check(load, c) < 0) {
        load_end(load);
        return;
    }
    if (++load->ready == load->connection_count) {
        clients_share_out(load);
        load_begin(load);
    } else {
        load_connect(load);
    }
}

/* The connection's requests came back as unanswered before. */
static void on_gone(struct connection *c)
{
    struct load *load = load_of(c);
    const char *uri = load->lanes[c->number * load->options->in_flight].client->export->uri;

    if (load->phase == LOAD_ENDED)
        return;
    if (load->gone[0] == '\0')
        snprintf(load->gone, sizeof load->gone, "%s: %s", uri, c->why);
    if (load->phase == LOAD_CONNECTING) {
        load_end(load);
        return;
    }
    /* Others may still be there: give what they have in flight a chance to be answered. */
    if (load->phase < LOAD_DRAINING)
        load_drain(load, clock_ns());
    load_advance(load);
}

static void on_timer(struct timer *timer)
{
    struct lane *lane = (void *)((char *)timer - offsetof(struct lane, timer));

    lane_begin(lane);
}

static void on_phase_timer(struct load *load)
{
    uint64_t now_ns = clock_ns();

    if (load->phase == LOAD_WARMING)
        load_measure(load, now_ns);
    else if (load->phase == LOAD_RUNNING)
        load_drain(load, now_ns);
    load_advance(load);
}

/* The load's own timer is told from the lanes' by its address. */
static struct load *running;

static void timer_expired(struct timer *timer)
{
    if (timer == &running->phase_timer)
        on_phase_timer(running);
    else
        on_timer(timer);
}

static void timers_after(void *context)
{
    struct load *load = context;

    connections_settle(&load->connections);
}

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
    struct load *load = watcher->data;

    (void)loop;
    (void)events;
    if (load->signal != 0 || load->phase == LOAD_CONNECTING) { /* impatient */
        load->signal = watcher->signum;
        load_end(load);
        return;
    }
    load->signal = watcher->signum;
    if (load->phase < LOAD_DRAINING)
        load_drain(load, clock_ns());
    load_advance(load);
    connections_settle(&load->connections);
}

/* Twice a second. */
static void on_watch(struct ev_loop *loop, ev_timer *watcher, int revents)
{
    struct load *load = watcher->data;
    uint64_t seen = load->m.answered + load->m.failed, now_ns = clock_ns();
    bool waiting = load->phase == LOAD_CONNECTING || load->phase == LOAD_FLUSHING;

    (void)loop;
    (void)revents;
    for (size_t i = 0; i < load->connection_count && !waiting; i++)
        waiting = load->connection[i].in_flight > 0;
    if (!waiting || seen != load->watch_answered) {
        load->watch_ns = now_ns;
        load->watch_answered = seen;
    } else if (load->options->stall_ns != 0 &&
               now_ns - load->watch_ns > load->options->stall_ns) {
        snprintf(load->gone, sizeof load->gone, "the server has not answered for %.0f s",
                 (now_ns - load->watch_ns) / 1e9);
        load_end(load);
    }
    if (!load->options->quiet)
        progress_show(load);
}

/* ---- beginning and end ---- */

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

static void lanes_make(struct load *load)
{
    const struct options *o = load->options;
    size_t lane = 0;

    for (unsigned i = 0; i < o->clients; i++) {
        struct client *client = &load->clients[i];

        client->number = i;
        client->export = &load->exports[i % o->uri_count];
        client->export->clients++;
        for (unsigned j = 0; j < o->connections * o->in_flight; j++, lane++) {
            struct lane *l = &load->lanes[lane];

            l->load = load;
            l->client = client;
            l->connection = &load->connection[lane / o->in_flight];
            l->random.state = o->seed * 0x9e3779b97f4a7c15u + lane;
            l->random.state = random_next(&l->random);
            l->buffer = o->pattern == PATTERN_READ || o->pattern == PATTERN_MIXED
                            ? allocate(1, o->size_max)
                            : NULL;
        }
    }
}

int load_init(struct load *load, const struct options *options)
{
    const struct options *o = options;
    size_t pool_size = o->size_max + 4096 * 8 + 8;

    memset(load, 0, sizeof *load);
    load->options = o;
    load->connection_count = (size_t)o->clients * o->connections;
    load->lane_count = load->connection_count * o->in_flight;
    load->exports = allocate(o->uri_count, sizeof *load->exports);
    load->clients = allocate(o->clients, sizeof *load->clients);
    load->connection = allocate(load->connection_count, sizeof *load->connection);
    load->lanes = allocate(load->lane_count, sizeof *load->lanes);
    load->pool = allocate(1, pool_size);
    load->random.state = o->seed;
    for (size_t i = 0; i + 8 <= pool_size; i += 8) {
        uint64_t word = random_next(&load->random);
        memcpy(load->pool + i, &word, 8);
    }
    for (size_t i = 0; i < o->size_count; i++)
        load->weight_sum += o->sizes[i].weight;
    for (size_t i = 0; i < o->uri_count; i++)
        load->exports[i].uri = o->uris[i];
    lanes_make(load);

    raise_limits();
    load->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (load->loop == NULL ||
        timers_start(&load->timers, load->loop, timer_expired, timers_after, load) < 0) {
        fprintf(stderr, "nbdload: no event loop: %s\n", strerror(errno));
        return -1;
    }
    connections_init(&load->connections, load->loop);
    load->connections.on_finished = on_finished;
    load->connections.on_ready = on_ready;
    load->connections.on_gone = on_gone;
    return 0;
}

static void watchers_start(struct load *load)
{
    static const int signals[] = {SIGINT, SIGTERM};

    for (int i = 0; i < 2; i++) {
        ev_signal_init(&load->interrupts[i], on_signal, signals[i]);
        load->interrupts[i].data = load;
        ev_signal_start(load->loop, &load->interrupts[i]);
    }
    load->watch_ns = clock_ns();
    ev_timer_init(&load->watch, on_watch, 0.5, 0.5);
    load->watch.data = load;
    ev_timer_start(load->loop, &load->watch);
}

void load_run(struct load *load)
{
    running = load;
    signal(SIGPIPE, SIG_IGN);
    watchers_start(load);
    for (size_t i = 0; i < load->connection_count; i++) {
        load->connection[i].owner = load;
        load->connection[i].number = i;
    }
    load_connect(load);
    connections_settle(&load->connections);
    if (load->phase != LOAD_ENDED)
        ev_run(load->loop, 0);
    if (!load->options->quiet)
        progress_clear();
    for (size_t i = 0; i < load->connection_count; i++)
        load->m.unanswered += load->connection[i].in_flight;
}

void load_destroy(struct load *load)
{
    load->phase = LOAD_ENDED;
    for (size_t i = 0; i < load->connection_count; i++)
        connection_close(&load->connection[i]);
    timers_stop(&load->timers, load->loop);
    ev_loop_destroy(load->loop);
    for (size_t i = 0; i < load->lane_count; i++)
        free(load->lanes[i].buffer);
    free(load->exports);
    free(load->clients);
    free(load->connection);
    free(load->lanes);
    free(load->pool);
}

int load_exit_code(const struct load *load)
{
    if (load->m.failed > 0)
        return EXIT_ERRORS;
    if (load->gone[0] != '\0' || load->m.unanswered > 0)
        return EXIT_GONE;
    return load->signal != 0 ? 128 + load->signal : EXIT_DONE;
}
