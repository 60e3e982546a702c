/* random-requests: four connections to a server, random requests overlapping in flight, kill -9
 * in between, and every byte that is read compared with what is legal (support/legal.h).
 *
 *   random-requests [OPTION]... SOCKET IMAGE COMMAND [ARGUMENT]...
 *
 * COMMAND is a server in the foreground that listens on SOCKET and serves the new, empty
 * IMAGE; it is started here, and ends with SIGTERM and exit code 0.  --help has the options.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <libnbd.h>

#include "legal.h"

#define CONNECTIONS 4
#define DEPTH 16 /* requests of one connection in flight */
#define LARGEST (UINT32_C(1) << 20)

static const char usage[] =
    "usage: random-requests [OPTION]... SOCKET IMAGE COMMAND [ARGUMENT]...\n"
    "  --seed N       of the random choices (default 1)\n"
    "  --requests N   how many (default 1000)\n"
    "  --kills N      so many times kill -9 and a new start in between (default 0)\n"
    "  --bypass N     writes of so many bytes without FUA may be torn by a crash\n"
    "                 (default: none)\n";

enum kind { READ, WRITE, TRIM, ZERO, FLUSH };

struct request {
    struct client *client;
    struct connection *connection;
    bool busy;
    enum kind kind;
    uint64_t offset, length, stamp;
    struct legal_change *change;
    uint8_t *bytes;
};

struct connection {
    struct nbd_handle *nbd;
    unsigned in_flight;
    struct request requests[DEPTH];
};

struct client {
    uint64_t seed, requests, kills, bypass;
    const char *socket, *image;
    char **command;
    uint64_t random, disk_bytes, atomic_bytes, content;
    pid_t server;
    bool ok;
    struct legal *legal;
    struct connection connections[CONNECTIONS];
    uint64_t answered;
};

static uint64_t random_below(struct client *c, uint64_t bound)
{
    /* splitmix64 */
    uint64_t z = c->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

static void *get(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory == NULL)
        abort();
    return memory;
}

static void give_up(const char *what, const char *why)
{
    printf("FAIL: %s: %s\n", what, why);
    exit(1);
}

/* ---- the server ---- */

static void server_start(struct client *c)
{
    unlink(c->socket);
    fflush(stdout);
    c->server = fork();
    if (c->server == 0) {
        execvp(c->command[0], c->command);
        perror(c->command[0]);
        _exit(127);
    }
}

static void server_kill(struct client *c)
{
    kill(c->server, SIGKILL);
    waitpid(c->server, NULL, 0);
    c->server = 0;
}

static void server_stop(struct client *c)
{
    int status;

    kill(c->server, SIGTERM);
    waitpid(c->server, &status, 0);
    c->server = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        give_up("the server", "it did not end well");
}

/* Tries until the server listens; the bound only ends a hang. */
static void connect_one(struct client *c, struct connection *connection)
{
    for (unsigned tries = 0; tries < 60000; tries++) {
        connection->nbd = nbd_create();
        if (connection->nbd == NULL)
            give_up("nbd_create", nbd_get_error());
        if (nbd_connect_unix(connection->nbd, c->socket) == 0)
            return;
        nbd_close(connection->nbd);
        if (waitpid(c->server, NULL, WNOHANG) == c->server) {
            c->server = 0;
            give_up("the server", "it has ended");
        }
        usleep(1000);
    }
    give_up("connect", nbd_get_error());
}

static void connect_all(struct client *c)
{
    for (unsigned i = 0; i < CONNECTIONS; i++)
        connect_one(c, &c->connections[i]);
}

static void close_all(struct client *c)
{
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        nbd_close(c->connections[i].nbd);
        /* Nobody is told of what was in flight. */
        c->connections[i].in_flight = 0;
        for (unsigned j = 0; j < DEPTH; j++)
            c->connections[i].requests[j].busy = false;
    }
}

/* ---- requests ---- */

static int answered(void *opaque, int *error)
{
    struct request *request = opaque;
    struct client *c = request->client;

    request->busy = false;
    request->connection->in_flight--;
    if (*error != 0) {
        printf("FAIL: request %d of %" PRIu64 " bytes at %" PRIu64 ": %s\n", request->kind,
               request->length, request->offset, strerror(*error));
        c->ok = false;
        return 1;
    }
    c->answered++;
    if (request->kind == READ)
        c->ok &= legal_read_answered(c->legal, request->stamp, request->offset, request->bytes,
                                     request->length);
    else if (request->kind != FLUSH)
        legal_answered(c->legal, request->change);
    return 1;
}

static uint64_t choose_length(struct client *c)
{
    static const uint32_t edges[] = {1, 511, 512, 513, 4095, 4096, 4097, 65535, 65536, 65537};
    uint64_t dice = random_below(c, 100);

    if (dice < 20)
        return edges[random_below(c, sizeof(edges) / sizeof(edges[0]))];
    if (dice < 60)
        return 1 + random_below(c, 5000);
    if (dice < 80)
        return 512 * (1 + random_below(c, 32));
    if (dice < 97)
        return 1 + random_below(c, 40000);
    return 1 + random_below(c, LARGEST);
}

static void choose(struct client *c, struct request *request, uint32_t *flags)
{
    static const enum kind kinds[] = {READ,  READ,  READ,  WRITE, WRITE, WRITE,
                                      WRITE, WRITE, WRITE, TRIM,  ZERO,  FLUSH};
    uint64_t room;

    *request = (struct request){.client = c,
                                .connection = request->connection,
                                .bytes = request->bytes,
                                .busy = true,
                                .kind = kinds[random_below(c, 12)]};
    *flags = 0;
    if (request->kind == FLUSH)
        return;
    request->length = choose_length(c);
    if (request->length > c->disk_bytes)
        request->length = c->disk_bytes;
    room = c->disk_bytes - request->length;
    /* Near to each other, so that they overlap in flight; or anywhere; or at the end. */
    request->offset =
        random_below(c, (random_below(c, 3) == 0 && room > 20000 ? 20000 : room) + 1);
    if (random_below(c, 20) == 0)
        request->offset = room;
    if (random_below(c, 3) == 0)
        request->offset &= ~UINT64_C(4095);
    if (request->kind != READ && random_below(c, 8) == 0)
        *flags |= LIBNBD_CMD_FLAG_FUA;
    if (request->kind == ZERO && random_below(c, 2) == 0)
        *flags |= LIBNBD_CMD_FLAG_NO_HOLE;
}

static void send_one(struct client *c, struct connection *connection)
{
    nbd_completion_callback done = {.callback = answered};
    struct nbd_handle *nbd = connection->nbd;
    struct request *request = connection->requests;
    uint32_t flags;
    bool atomic;
    int64_t cookie = -1;

    while (request->busy)
        request++;
    choose(c, request, &flags);
    done.user_data = request;
    connection->in_flight++;
    /* Any trim or zero is one record. */
    atomic = request->kind != WRITE ||
             (request->length <= c->atomic_bytes &&
              (flags & LIBNBD_CMD_FLAG_FUA || request->length < c->bypass));
    if (request->kind == READ)
        request->stamp = legal_read_sent(c->legal);
    else if (request->kind != FLUSH)
        request->change = legal_sent(c->legal, request->offset, request->length,
                                     request->kind == WRITE ? ++c->content : 0, atomic);
    switch (request->kind) {
    case READ:
        cookie = nbd_aio_pread(nbd, request->bytes, request->length, request->offset, done, 0);
        break;
    case WRITE:
        legal_bytes(c->content, request->offset, request->bytes, request->length);
        cookie =
            nbd_aio_pwrite(nbd, request->bytes, request->length, request->offset, done, flags);
        break;
    case TRIM:
        cookie = nbd_aio_trim(nbd, request->length, request->offset, done, flags);
        break;
    case ZERO:
        cookie = nbd_aio_zero(nbd, request->length, request->offset, done, flags);
        break;
    case FLUSH:
        cookie = nbd_aio_flush(nbd, done, 0);
        break;
    }
    if (cookie == -1)
        give_up("request", nbd_get_error());
}

/* Waits until something was answered, or could be sent. */
static void wait_for_answers(struct client *c)
{
    struct pollfd fds[CONNECTIONS];

    for (unsigned i = 0; i < CONNECTIONS; i++) {
        unsigned direction = nbd_aio_get_direction(c->connections[i].nbd);

        fds[i] = (struct pollfd){
            .fd = nbd_aio_get_fd(c->connections[i].nbd),
            .events = (direction & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
                      (direction & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0),
        };
    }
    if (poll(fds, CONNECTIONS, 60000) <= 0)
        give_up("the server", "it has answered nothing for a minute");
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        struct nbd_handle *nbd = c->connections[i].nbd;
        int r = 0;

        if (fds[i].revents & POLLIN)
            r = nbd_aio_notify_read(nbd);
        else if (fds[i].revents & POLLOUT)
            r = nbd_aio_notify_write(nbd);
        if (r == -1 || fds[i].revents & ~(POLLIN | POLLOUT))
            give_up("connection", r == -1 ? nbd_get_error() : "it is closed");
    }
}

/* ---- lives ---- */

static void drain(struct client *c)
{
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        while (c->connections[i].in_flight > 0 && c->ok)
            wait_for_answers(c);
    }
}

static void reconnect(struct client *c)
{
    drain(c);
    for (unsigned i = 0; i < CONNECTIONS && c->ok; i++) {
        if (random_below(c, 2) == 0)
            continue;
        if (nbd_shutdown(c->connections[i].nbd, 0) == -1)
            give_up("shutdown", nbd_get_error());
        nbd_close(c->connections[i].nbd);
        connect_one(c, &c->connections[i]);
    }
}

/* So many requests more, at a depth that changes. */
static void work(struct client *c, uint64_t count)
{
    unsigned depth = DEPTH;

    for (uint64_t sent = 0; sent < count && c->ok; sent++) {
        struct connection *connection = &c->connections[random_below(c, CONNECTIONS)];

        if (random_below(c, 300) == 0)
            depth = 1 + random_below(c, DEPTH);
        if (random_below(c, 3000) == 0)
            reconnect(c);
        while (connection->in_flight >= depth && c->ok)
            wait_for_answers(c);
        if (c->ok)
            send_one(c, connection);
    }
}

static void compare_disk(struct client *c)
{
    uint8_t *bytes = get(c->disk_bytes);

    for (uint64_t at = 0; at < c->disk_bytes; at += LARGEST) {
        uint64_t left = c->disk_bytes - at;

        if (nbd_pread(c->connections[0].nbd, bytes + at, left < LARGEST ? left : LARGEST, at,
                      0) == -1)
            give_up("read", nbd_get_error());
    }
    c->ok &= legal_found(c->legal, bytes);
    free(bytes);
}

/* The server dies with requests in flight; now and then once more while it starts. */
static void crash(struct client *c)
{
    server_kill(c);
    close_all(c);
    legal_crashed(c->legal);
    server_start(c);
    while (random_below(c, 4) == 0) {
        usleep(random_below(c, 60000));
        server_kill(c);
        server_start(c);
    }
    connect_all(c);
    compare_disk(c);
}

/* P5: after a clean stop the image alone is all that. */
static void compare_image(struct client *c)
{
    uint8_t *bytes = get(c->disk_bytes);
    int fd = open(c->image, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        give_up(c->image, strerror(errno));
    for (uint64_t at = 0; at < c->disk_bytes;) {
        ssize_t got = pread(fd, bytes + at, c->disk_bytes - at, at);

        if (got <= 0)
            give_up(c->image, got < 0 ? strerror(errno) : "it is too short");
        at += got;
    }
    close(fd);
    legal_crashed(c->legal); /* nothing is in flight */
    c->ok &= legal_found(c->legal, bytes);
    free(bytes);
}

static void parse(struct client *c, int argc, char *argv[])
{
    static const struct option longs[] = {{"seed", required_argument, NULL, 's'},
                                          {"requests", required_argument, NULL, 'r'},
                                          {"kills", required_argument, NULL, 'k'},
                                          {"bypass", required_argument, NULL, 'b'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "+", longs, NULL)) != -1) {
        uint64_t *number = option == 's'   ? &c->seed
                           : option == 'r' ? &c->requests
                           : option == 'k' ? &c->kills
                           : option == 'b' ? &c->bypass
                                           : NULL;

        if (number == NULL) {
            fputs(usage, stderr);
            exit(2);
        }
        *number = strtoull(optarg, NULL, 0);
    }
    if (argc - optind < 3) {
        fputs(usage, stderr);
        exit(2);
    }
    c->socket = argv[optind];
    c->image = argv[optind + 1];
    c->command = argv + optind + 2;
}

static struct client client = {.seed = 1, .requests = 1000, .bypass = UINT64_MAX, .ok = true};

static void end_server(void)
{
    if (client.server > 0)
        server_kill(&client);
}

int main(int argc, char *argv[])
{
    struct client *c = &client;
    const struct legal_counts *counts;
    struct stat st;

    parse(c, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    atexit(end_server);
    c->random = c->seed;
    if (stat(c->image, &st) == -1)
        give_up(c->image, strerror(errno));
    c->disk_bytes = st.st_size;
    c->legal = legal_create(c->disk_bytes);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        for (unsigned j = 0; j < DEPTH; j++) {
            c->connections[i].requests[j].connection = &c->connections[i];
            c->connections[i].requests[j].bytes = get(LARGEST);
        }
    }
    server_start(c);
    connect_all(c);
    if (nbd_can_multi_conn(c->connections[0].nbd) != 1)
        give_up("the server", "multi-conn is not offered");
    c->atomic_bytes = nbd_get_block_size(c->connections[0].nbd, LIBNBD_SIZE_MAXIMUM);
    for (uint64_t life = 0; life <= c->kills && c->ok; life++) {
        if (life > 0)
            crash(c);
        work(c, c->requests / (c->kills + 1) + 1);
    }
    drain(c);
    if (c->ok) {
        close_all(c);
        server_stop(c);
        compare_image(c);
    }
    counts = legal_counts_get(c->legal);
    printf("%" PRIu64 " requests answered, %" PRIu64 " kills: %" PRIu64
           " MiB compared, %" PRIu64 " MiB of them with changes in flight; of %" PRIu64
           " changes in flight at a kill %" PRIu64 " were there\n",
           c->answered, c->kills, counts->bytes_compared >> 20, counts->bytes_in_flight >> 20,
           counts->unanswered, counts->unanswered_there);
    if (!c->ok)
        printf("replay: --seed %" PRIu64 " --requests %" PRIu64 " --kills %" PRIu64 "\n",
               c->seed, c->requests, c->kills);
    return c->ok ? 0 : 1;
}
