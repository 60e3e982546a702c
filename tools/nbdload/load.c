/* load: its phases, and what happens meanwhile.  See load.h. */
#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "exit_code.h"
#include "load.h"
#include "load_setup.h"
#include "pace.h"
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
        pace_next(&load->lanes[i], now_ns);
    load_advance(load);
}

/* Nothing new begins. */
static void load_drain(struct load *load, uint64_t now_ns)
{
    if (load->phase >= LOAD_DRAINING)
        return;
    load->phase = LOAD_DRAINING;
    timers_cancel(&load->timers, &load->phase_timer);
    for (size_t i = 0; i < load->lane_count; i++) {
        if (load->lanes[i].timer.set || load->lanes[i].idle)
            lane_rest(&load->lanes[i]);
    }
    if (load->options->rate > 0 && load->next_due_ns < now_ns)
        load->m.behind = (now_ns - load->next_due_ns) * load->options->rate / 1e9;
}

static bool target_is_unflushed(const struct load *load, const struct target *target)
{
    for (unsigned i = 0; i < load->options->clients; i++) {
        if (load->clients[i].target == target && load->clients[i].unflushed > 0)
            return true;
    }
    return false;
}

/* One flush on every connection whose export has something new, all at once. */
static void load_flush(struct load *load)
{
    size_t in_flight = load->options->in_flight;

    load->phase = LOAD_FLUSHING;
    /* Which ones is decided before the first is sent, as sending marks a client as flushed. */
    for (size_t i = 0; i < load->connection_count; i++) {
        struct lane *lane = &load->lanes[i * in_flight];
        lane->resting = !target_is_unflushed(load, lane->client->target);
        load->flushing += !lane->resting;
    }
    if (load->flushing == 0) {
        load_end(load);
        return;
    }
    load->m.flush_start_ns = clock_ns();
    for (size_t i = 0; i < load->connection_count; i++) {
        struct lane *lane = &load->lanes[i * in_flight];
        if (!lane->resting)
            lane_send_flush(lane);
    }
}

/* After anything that may have ended a phase. */
static void load_advance(struct load *load)
{
    if (load->phase < LOAD_WARMING || load->phase > LOAD_DRAINING || load->busy > 0)
        return;
    if (load->signal != 0 || load->gone[0] != '\0' || load->broken[0] != '\0')
        load_end(load);
    else
        load_flush(load);
}

/* ---- what happens ---- */

/* Tells the ledger; wrong data ends the load. */
static void account(struct lane *lane)
{
    struct load *load = lane->load;
    char text[sizeof load->broken];

    if (lane_account(lane, text, sizeof text))
        return;
    ledger_note_broken(load->ledger, text);
    if (load->broken[0] == '\0')
        memcpy(load->broken, text, sizeof text);
    load_drain(load, clock_ns());
}

static void count(struct lane *lane)
{
    struct load *load = lane->load;
    struct request *request = &lane->request;

    switch (request->outcome) {
    case OUTCOME_ANSWERED:
        load->m.answered++;
        if (load->phase != LOAD_FLUSHING) /* the final flushes are told apart */
            measure_request(&load->m, request);
        break;
    case OUTCOME_FAILED:
        measure_failure(&load->m, request, lane->client->number);
        break;
    case OUTCOME_UNANSWERED:
        load->m.unanswered++;
        break;
    case OUTCOME_NONE:
        assert(0);
    }
}

static void on_flushed(struct load *load, const struct request *request)
{
    if (request->outcome == OUTCOME_ANSWERED)
        histogram_record(&load->m.final_flush, request->done_ns - request->sent_ns);
    load->m.flush_end_ns = request->done_ns;
    if (--load->flushing == 0)
        load_end(load);
}

static void on_finished(struct request *request)
{
    struct lane *lane = lane_of_request(request);
    struct load *load = lane->load;

    account(lane);
    count(lane);
    if (load->phase == LOAD_ENDED)
        return;
    if (load->phase == LOAD_FLUSHING) {
        on_flushed(load, request);
        return;
    }
    if (request->outcome == OUTCOME_ANSWERED) {
        if (lane_continue(lane))
            return;
        lane->client->done++;
        measure_operation(&load->m, lane->due_ns, request->done_ns, lane->bytes);
    }
    if (request->outcome == OUTCOME_UNANSWERED)
        lane_rest(lane);
    else
        pace_next(lane, clock_ns());
    load_advance(load);
}

/* Not all at once: a listening socket's queue is short (10 in nbd-server), and on a Unix socket
 * the next one is refused then. */
#define CONNECTING_MAX 4

static void load_connect(struct load *load)
{
    while (load->opened < load->connection_count &&
           load->opened < load->ready + CONNECTING_MAX) {
        struct connection *c = &load->connection[load->opened++];
        struct lane *lane = &load->lanes[c->number * load->options->in_flight];
        const char *uri = lane->client->target->uri;

        if (connection_open(c, &load->connections, uri) < 0) {
            load_fail(load, EXIT_USAGE, "%s: %s", uri, c->why);
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
    if (!load_accept(load, c)) {
        load_end(load);
        return;
    }
    if (++load->ready == load->connection_count)
        load_begin(load);
    else
        load_connect(load);
}

/* The connection's requests came back as unanswered before. */
static void on_gone(struct connection *c)
{
    struct load *load = load_of(c);
    struct lane *lane = &load->lanes[c->number * load->options->in_flight];

    if (load->phase == LOAD_ENDED)
        return;
    load_fail(load, 0, "%s: %s", lane->client->target->uri, c->why);
    if (load->phase == LOAD_CONNECTING) {
        load_end(load);
        return;
    }
    /* Others may still be there: what they have in flight may be answered. */
    load_drain(load, clock_ns());
    load_advance(load);
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

/* A signal's loop and a timer's callback have no other way to it. */
static struct load *running;

static void timer_expired(struct timer *timer)
{
    if (timer == &running->phase_timer)
        on_phase_timer(running);
    else
        lane_begin(lane_of_timer(timer));
}

static void timers_after(void *context)
{
    struct load *load = context;

    connections_settle(&load->connections);
}

/* The first time what is in flight is waited for. */
static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
    struct load *load = watcher->data;
    bool impatient = load->signal != 0;

    (void)loop;
    (void)events;
    load->signal = watcher->signum;
    if (impatient || load->phase == LOAD_CONNECTING) {
        load_end(load);
        return;
    }
    load_drain(load, clock_ns());
    load_advance(load);
    connections_settle(&load->connections);
}

/* Twice a second. */
static void on_watch(struct ev_loop *loop, ev_timer *watcher, int events)
{
    struct load *load = watcher->data;
    uint64_t seen = load->m.answered + load->m.failed, now_ns = clock_ns();
    bool waiting = load->phase == LOAD_CONNECTING;

    (void)loop;
    (void)events;
    for (size_t i = 0; i < load->connection_count && !waiting; i++)
        waiting = load->connection[i].in_flight > 0;
    if (!waiting || seen != load->watch_answered) {
        load->watch_ns = now_ns;
        load->watch_answered = seen;
    } else if (load->options->stall_ns != 0 &&
               now_ns - load->watch_ns > load->options->stall_ns) {
        load_fail(load, 0, "the server has not answered for %.0f s",
                  (now_ns - load->watch_ns) / 1e9);
        load_end(load);
    }
    if (!load->options->quiet)
        progress_show(load);
}

/* ---- the run ---- */

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

int load_run(struct load *load)
{
    load->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (load->loop == NULL ||
        timers_start(&load->timers, load->loop, timer_expired, timers_after, load) < 0) {
        fprintf(stderr, "nbdload: no event loop\n");
        return -1;
    }
    connections_init(&load->connections, load->loop);
    load->connections.on_finished = on_finished;
    load->connections.on_ready = on_ready;
    load->connections.on_gone = on_gone;

    running = load;
    signal(SIGPIPE, SIG_IGN);
    watchers_start(load);
    load_connect(load);
    connections_settle(&load->connections);
    if (load->phase != LOAD_ENDED)
        ev_run(load->loop, 0);
    if (!load->options->quiet)
        progress_clear();
    for (size_t i = 0; i < load->connection_count; i++)
        load->m.unanswered += load->connection[i].in_flight;
    return 0;
}

int load_exit_code(const struct load *load)
{
    if (load->broken[0] != '\0')
        return EXIT_BROKEN;
    if (load->refused != 0)
        return load->refused;
    if (load->m.failed > 0)
        return EXIT_ERRORS;
    if (load->gone[0] != '\0' || load->m.unanswered > 0)
        return EXIT_GONE;
    return load->signal != 0 ? 128 + load->signal : EXIT_DONE;
}
