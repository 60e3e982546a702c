/* connection: libnbd's asynchronous calls driven by a libev loop.
 *
 * libnbd calls back with its handle locked, so a completion callback may not send the next
 * request.  It only puts the request on a queue; connections_settle(), which every watcher's
 * callback ends with, empties the queue, and whoever takes a request from it may send again.
 *
 * A request has exactly one outcome, whatever happens to the server: it is answered, it is
 * answered with an error, or the connection goes before it was answered.
 */
#ifndef NBDLOAD_CONNECTION_H
#define NBDLOAD_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <ev.h>
#include <libnbd.h>

enum request_kind {
    REQUEST_READ,
    REQUEST_WRITE,
    REQUEST_FUA, /* a write with this flag */
    REQUEST_TRIM,
    REQUEST_ZERO,
    REQUEST_FLUSH,
    REQUEST_KINDS
};

extern const char *const request_kind_name[REQUEST_KINDS];

enum outcome {
    OUTCOME_NONE, /* not sent, or on its way */
    OUTCOME_ANSWERED,
    OUTCOME_FAILED,     /* answered with an error, or refused by libnbd: see error */
    OUTCOME_UNANSWERED, /* the connection went: nobody knows what the server did */
};

struct request {
    struct connection *connection;
    enum request_kind kind;
    uint32_t flags; /* LIBNBD_CMD_FLAG_..., of trims and zeroes */
    uint64_t offset;
    uint32_t length;
    void *buffer; /* of `length` bytes; only read from for a write */
    uint64_t sent_ns, done_ns;
    enum outcome outcome;
    int error;                  /* errno */
    STAILQ_ENTRY(request) link; /* in the queue of finished ones */
};

STAILQ_HEAD(request_queue, request);

enum connection_state {
    CONNECTION_CONNECTING,
    CONNECTION_READY,
    CONNECTION_GONE, /* never comes back */
};

struct connection {
    struct connections *set;
    struct nbd_handle *nbd;
    enum connection_state state;
    unsigned number;
    unsigned in_flight;
    ev_io watcher;
    char why[256]; /* what libnbd said when it broke */
    bool touched;  /* its watcher has to be looked at */
    STAILQ_ENTRY(connection) touched_link;
    void *owner; /* whose it is: for the callbacks */
};

struct connections {
    struct ev_loop *loop;
    struct request_queue finished;
    STAILQ_HEAD(, connection) touched;
    bool settling;
    /* Called only from connections_settle. */
    void (*on_finished)(struct request *request);
    void (*on_ready)(struct connection *connection);
    /* With all its requests finished; connection->why says more. */
    void (*on_gone)(struct connection *connection);
};

void connections_init(struct connections *set, struct ev_loop *loop);

/* Begins to connect.  -1: it can't even be tried, and `why` says the reason. */
int connection_open(struct connection *connection, struct connections *set, const char *uri);

/* Sends; the request comes back through on_finished, also when it could not be sent. */
void connection_send(struct connection *connection, struct request *request);

/* Carries out what the callbacks left, until nothing is left. */
void connections_settle(struct connections *set);

/* Says good-bye if the server is there, and frees.  Requests in flight are not waited for. */
void connection_close(struct connection *connection);

#endif
