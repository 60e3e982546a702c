/* control: see control.h.  Connections, in the engine's loop: nothing here ever blocks. */
#include <errno.h>
#include <ev.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "control_answer.h"
#include "control_socket.h"
#include "report.h"

/* Without descriptors (EMFILE) a listening socket stays readable: look again then. */
#define ACCEPT_PAUSE_S 1.

struct connection {
    TAILQ_ENTRY(connection) link; /* silent longest first */
    struct control *control;
    struct ev_io io;
    struct ev_timer slow; /* runs while an answer waits */
    int events;           /* what io waits for */
    bool ends;            /* no more requests: closed when its answer is out */
    size_t in_count;
    char in[CONTROL_LINE_MAX];
    char *out; /* NULL: a request is awaited */
    size_t out_count, out_done;
};

struct control {
    struct control_socket socket;
    struct engine *engine;
    struct ev_loop *loop; /* NULL: not served yet */
    struct ev_io listener;
    struct ev_timer pause;
    TAILQ_HEAD(, connection) connections;
    unsigned connection_count;
};

static void connection_free(struct connection *c)
{
    TAILQ_REMOVE(&c->control->connections, c, link);
    c->control->connection_count--;
    close(c->io.fd);
    free(c->out);
    free(c);
}

static void connection_drop(struct connection *c)
{
    ev_io_stop(c->control->loop, &c->io);
    ev_timer_stop(c->control->loop, &c->slow);
    connection_free(c);
}

static void watch(struct connection *c, int events)
{
    if (c->events == events)
        return;
    ev_io_stop(c->control->loop, &c->io);
    ev_io_set(&c->io, c->io.fd, events);
    ev_io_start(c->control->loop, &c->io);
    c->events = events;
}

/* ---- requests and answers ---- */

/* False: the connection is gone. */
static bool send_more(struct connection *c)
{
    struct ev_loop *loop = c->control->loop;

    while (c->out_done < c->out_count) {
        ssize_t n = send(c->io.fd, c->out + c->out_done, c->out_count - c->out_done,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            watch(c, EV_WRITE);
            ev_timer_again(loop, &c->slow);
            return true;
        }
        if (n < 0) {
            connection_drop(c);
            return false;
        }
        c->out_done += (size_t)n;
    }
    free(c->out);
    c->out = NULL;
    ev_timer_stop(loop, &c->slow);
    if (c->ends) {
        connection_drop(c);
        return false;
    }
    watch(c, EV_READ);
    return true;
}

/* False: the connection is gone. */
static bool begin_answer(struct connection *c, char *text)
{
    if (text == NULL) {
        report_error("control socket: a client is dropped: %s", report_reason(ENOMEM));
        connection_drop(c);
        return false;
    }
    c->out = text;
    c->out_count = strlen(text);
    c->out_done = 0;
    return send_more(c);
}

/* Answers one request if a whole one is there. */
static void serve_request(struct connection *c)
{
    char *end = memchr(c->in, '\n', c->in_count);
    size_t count = end != NULL ? (size_t)(end - c->in) : c->in_count;
    char *answer;

    if (end == NULL && !c->ends) {
        if (c->in_count < sizeof(c->in))
            return;
        c->ends = true;
        begin_answer(c, control_refuse("the request is too long"));
        return;
    }
    if (end == NULL && count == 0) { /* the end after the last line */
        connection_drop(c);
        return;
    }
    answer = control_answer(c->control->engine, c->in, count);
    if (end != NULL)
        count++;
    c->in_count -= count;
    memmove(c->in, c->in + count, c->in_count);
    /* Others come first, then the next line of this one. */
    if (begin_answer(c, answer) && c->out == NULL && c->in_count > 0)
        ev_feed_event(c->control->loop, &c->io, EV_READ);
}

static void receive(struct connection *c)
{
    ssize_t n;

    if (c->in_count < sizeof(c->in) && !c->ends) {
        n = recv(c->io.fd, c->in + c->in_count, sizeof(c->in) - c->in_count, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            connection_drop(c);
            return;
        }
        if (n > 0)
            c->in_count += (size_t)n;
        else if (n == 0 && memchr(c->in, '\n', c->in_count) == NULL)
            c->ends = true; /* what is there is the last request */
    }
    serve_request(c);
}

static void connection_ready(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct connection *c = io->data;

    (void)loop;
    (void)events;
    TAILQ_REMOVE(&c->control->connections, c, link);
    TAILQ_INSERT_TAIL(&c->control->connections, c, link);
    if (c->out != NULL)
        send_more(c);
    else
        receive(c);
}

static void connection_is_slow(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    connection_drop(timer->data);
}

/* ---- connections ---- */

static void connection_begin(struct control *control, int fd)
{
    struct connection *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        close(fd);
        return;
    }
    if (control->connection_count == CONTROL_CONNECTIONS_MAX)
        connection_drop(TAILQ_FIRST(&control->connections));
    c->control = control;
    TAILQ_INSERT_TAIL(&control->connections, c, link);
    control->connection_count++;
    c->events = EV_READ;
    ev_io_init(&c->io, connection_ready, fd, EV_READ);
    ev_timer_init(&c->slow, connection_is_slow, 0., CONTROL_SLOW_S);
    c->io.data = c->slow.data = c;
    ev_io_start(control->loop, &c->io);
}

static void accept_ready(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct control *c = io->data;
    int fd = accept4(c->socket.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)events;
    if (fd >= 0) {
        connection_begin(c, fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        ev_io_stop(loop, io);
        ev_timer_again(loop, &c->pause);
    }
}

static void pause_is_over(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct control *c = timer->data;

    (void)events;
    ev_timer_stop(loop, timer);
    ev_io_start(loop, &c->listener);
}

/* ---- the whole ---- */

int control_open(struct control **out, const char *path)
{
    struct control *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return -ENOMEM;
    TAILQ_INIT(&c->connections);
    r = control_socket_open(&c->socket, path);
    if (r < 0) {
        free(c);
        return r;
    }
    *out = c;
    return 0;
}

void control_serve(struct control *c, struct engine *e, struct ev_loop *loop)
{
    c->engine = e;
    c->loop = loop;
    ev_io_init(&c->listener, accept_ready, c->socket.fd, EV_READ);
    ev_timer_init(&c->pause, pause_is_over, 0., ACCEPT_PAUSE_S);
    c->listener.data = c->pause.data = c;
    ev_io_start(loop, &c->listener);
}

void control_close(struct control *c)
{
    struct connection *connection;

    if (c == NULL)
        return;
    /* The loop does not run and may be gone: its watchers are only forgotten. */
    while ((connection = TAILQ_FIRST(&c->connections)) != NULL)
        connection_free(connection);
    control_socket_close(&c->socket);
    free(c);
}
