/* connection: see connection.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "connection.h"
#include "timers.h"

const char *const request_kind_name[REQUEST_KINDS] = {
    [REQUEST_READ] = "read", [REQUEST_WRITE] = "write", [REQUEST_FUA] = "fua write",
    [REQUEST_TRIM] = "trim", [REQUEST_ZERO] = "zero",   [REQUEST_FLUSH] = "flush",
};

void connections_init(struct connections *set, struct ev_loop *loop)
{
    *set = (struct connections){.loop = loop};
    STAILQ_INIT(&set->finished);
    STAILQ_INIT(&set->touched);
}

static void connection_touch(struct connection *c)
{
    if (!c->touched) {
        c->touched = true;
        STAILQ_INSERT_TAIL(&c->set->touched, c, touched_link);
    }
}

static void request_finish(struct request *request, enum outcome outcome, int error)
{
    struct connection *c = request->connection;

    assert(request->outcome == OUTCOME_NONE);
    request->outcome = outcome;
    request->error = error;
    request->done_ns = clock_ns();
    STAILQ_INSERT_TAIL(&c->set->finished, request, link);
}

/* libnbd's completion callback; its handle is locked. */
static int request_completed(void *user_data, int *error)
{
    struct request *request = user_data;
    struct connection *c = request->connection;

    c->in_flight--;
    if (*error == 0)
        request_finish(request, OUTCOME_ANSWERED, 0);
    else if (*error ==
             ENOTCONN) /* libnbd's word for "the connection went"; not in the protocol */
        request_finish(request, OUTCOME_UNANSWERED, *error);
    else
        request_finish(request, OUTCOME_FAILED, *error);
    return 1; /* libnbd may forget it */
}

void connection_send(struct connection *c, struct request *request)
{
    struct nbd_handle *nbd = c->nbd;
    nbd_completion_callback done = {.callback = request_completed, .user_data = request};
    int64_t cookie = -1;

    request->connection = c;
    request->outcome = OUTCOME_NONE;
    request->sent_ns = clock_ns();
    if (c->state != CONNECTION_READY) {
        request_finish(request, OUTCOME_UNANSWERED, ENOTCONN);
        return;
    }
    c->in_flight++;
    switch (request->kind) {
    case REQUEST_READ:
        cookie = nbd_aio_pread(nbd, request->buffer, request->length, request->offset, done, 0);
        break;
    case REQUEST_WRITE:
    case REQUEST_FUA:
        cookie = nbd_aio_pwrite(nbd, request->buffer, request->length, request->offset, done,
                                request->kind == REQUEST_FUA ? LIBNBD_CMD_FLAG_FUA : 0);
        break;
    case REQUEST_TRIM:
        cookie = nbd_aio_trim(nbd, request->length, request->offset, done,
                              request->flags & LIBNBD_CMD_FLAG_FUA);
        break;
    case REQUEST_ZERO:
        cookie = nbd_aio_zero(nbd, request->length, request->offset, done, request->flags);
        break;
    case REQUEST_FLUSH:
        cookie = nbd_aio_flush(nbd, done, 0);
        break;
    case REQUEST_KINDS:
        assert(0);
    }
    /* Refused before it was queued, if the callback was not called.  Nothing else can be told
     * from the cookie: when the connection breaks in this very call, libnbd 1.14 has called back
     * and freed the command by the time that it reads the cookie from it. */
    if (cookie < 0 && request->outcome == OUTCOME_NONE) {
        int error = nbd_get_errno();
        c->in_flight--;
        if (nbd_aio_is_dead(nbd) || nbd_aio_is_closed(nbd))
            request_finish(request, OUTCOME_UNANSWERED, ENOTCONN);
        else
            request_finish(request, OUTCOME_FAILED, error != 0 ? error : EINVAL);
    }
    connection_touch(c);
}

/* libnbd keeps only the newest error of the thread. */
static void connection_note_error(struct connection *c)
{
    const char *why = nbd_get_error();

    if (c->why[0] == '\0' && why != NULL)
        snprintf(c->why, sizeof c->why, "%s", why);
}

/* Also notices what became of the connection. */
static void connection_update(struct connection *c)
{
    struct connections *set = c->set;
    unsigned direction;
    int fd, events = 0;

    if (c->state == CONNECTION_GONE)
        return;
    if (nbd_aio_is_dead(c->nbd) || nbd_aio_is_closed(c->nbd)) {
        /* libnbd has ended all that was in flight, and finished requests go first. */
        assert(c->in_flight == 0);
        c->state = CONNECTION_GONE;
        ev_io_stop(set->loop, &c->watcher);
        if (c->why[0] == '\0')
            snprintf(c->why, sizeof c->why, "the server closed the connection");
        set->on_gone(c);
        return;
    }
    if (c->state == CONNECTION_CONNECTING && nbd_aio_is_ready(c->nbd)) {
        c->state = CONNECTION_READY;
        set->on_ready(c);
    }
    fd = nbd_aio_get_fd(c->nbd);
    direction = nbd_aio_get_direction(c->nbd);
    if (direction & LIBNBD_AIO_DIRECTION_READ)
        events |= EV_READ;
    if (direction & LIBNBD_AIO_DIRECTION_WRITE)
        events |= EV_WRITE;
    if (ev_is_active(&c->watcher) && c->watcher.fd == fd &&
        (c->watcher.events & (EV_READ | EV_WRITE)) == events)
        return;
    ev_io_stop(set->loop, &c->watcher);
    if (fd < 0 || events == 0)
        return;
    ev_io_set(&c->watcher, fd, events);
    ev_io_start(set->loop, &c->watcher);
}

void connections_settle(struct connections *set)
{
    assert(!set->settling);
    set->settling = true;
    while (!STAILQ_EMPTY(&set->finished) || !STAILQ_EMPTY(&set->touched)) {
        struct request *request = STAILQ_FIRST(&set->finished);
        struct connection *c;

        if (request != NULL) {
            STAILQ_REMOVE_HEAD(&set->finished, link);
            set->on_finished(request);
            continue;
        }
        c = STAILQ_FIRST(&set->touched);
        STAILQ_REMOVE_HEAD(&set->touched, touched_link);
        c->touched = false;
        connection_update(c);
    }
    set->settling = false;
}

static void connection_event(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct connection *c = watcher->data;
    unsigned direction = nbd_aio_get_direction(c->nbd);
    int r = 0;

    (void)loop;
    if ((events & EV_READ) && (direction & LIBNBD_AIO_DIRECTION_READ))
        r = nbd_aio_notify_read(c->nbd);
    else if ((events & EV_WRITE) && (direction & LIBNBD_AIO_DIRECTION_WRITE))
        r = nbd_aio_notify_write(c->nbd);
    if (r < 0)
        connection_note_error(c);
    connection_touch(c);
    connections_settle(c->set);
}

int connection_open(struct connection *c, struct connections *set, const char *uri)
{
    c->set = set;
    c->state = CONNECTION_CONNECTING;
    ev_init(&c->watcher, connection_event);
    c->watcher.data = c;
    c->nbd = nbd_create();
    if (c->nbd == NULL) {
        connection_note_error(c);
        return -1;
    }
    /* A failed read's buffer is never looked at, so libnbd need not clear it first. */
    nbd_set_pread_initialize(c->nbd, false);
    nbd_set_uri_allow_local_file(c->nbd, true); /* certificates and keys */
    if (nbd_aio_connect_uri(c->nbd, uri) < 0) {
        connection_note_error(c);
        /* A dead one tried and failed: on_gone will say so.  Else the URI is no good. */
        if (!nbd_aio_is_dead(c->nbd) && !nbd_aio_is_closed(c->nbd))
            return -1;
    }
    connection_touch(c);
    return 0;
}

void connection_close(struct connection *c)
{
    if (c->nbd == NULL)
        return;
    ev_io_stop(c->set->loop, &c->watcher);
    if (c->state == CONNECTION_READY)
        nbd_aio_disconnect(c->nbd, 0);
    nbd_close(c->nbd);
    c->nbd = NULL;
}
