/* ask: see ask.h. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"

/* A server with all disks and clients that it lists sends a megabyte.  What sends without an end is
 * none of ours. */
#define ANSWER_MAX (64u << 20)
#define PIECE 65536u

#define QUEUE_PAUSE_NS 10000000

struct answer {
    int fd;
    int64_t deadline_ms;
    char *bytes;
    size_t count, room;
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int open_socket(const char *path, int64_t deadline_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timespec pause = {.tv_nsec = QUEUE_PAUSE_NS};
    int fd, error;

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    do {
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return fd;
        error = errno;
        /* Many wait to be let in: the kernel does not tell when there is room. */
    } while (error == EAGAIN && now_ms() < deadline_ms && nanosleep(&pause, NULL) == 0);
    close(fd);
    return error == EAGAIN ? -ETIMEDOUT : -error;
}

static int await(const struct answer *a, short events)
{
    struct pollfd poll_fd = {.fd = a->fd, .events = events};
    int64_t left = a->deadline_ms - now_ms();
    int r = left <= 0 ? 0 : poll(&poll_fd, 1, (int)left);

    if (r < 0 && errno != EINTR)
        return -errno;
    return r == 0 ? -ETIMEDOUT : 0;
}

static int send_command(const struct answer *a, const char *command)
{
    char line[128];
    int count = snprintf(line, sizeof(line), "{\"command\": \"%s\"}\n", command);
    ssize_t n = send(a->fd, line, (size_t)count, MSG_NOSIGNAL);

    if (n < 0)
        return -errno;
    return n == count ? 0 : -EIO; /* so short a line always has room in a new socket */
}

/* Reads to the end of the line. */
static int receive(struct answer *a)
{
    char *grown;
    ssize_t n;
    int r;

    while (a->count == 0 || a->bytes[a->count - 1] != '\n') {
        if (a->room - a->count < PIECE) {
            a->room = 2 * a->room + PIECE;
            grown = a->room > ANSWER_MAX ? NULL : realloc(a->bytes, a->room);
            if (grown == NULL)
                return -ENOMEM;
            a->bytes = grown;
        }
        n = recv(a->fd, a->bytes + a->count, a->room - a->count, 0);
        if (n == 0)
            return -EPIPE;
        if (n > 0)
            a->count += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
        else if ((r = await(a, POLLIN)) < 0)
            return r;
    }
    return 0;
}

static void explain(const char *path, int error, char why[ASK_WHY_BYTES])
{
    switch (error) {
    case -ENOENT:
        snprintf(why, ASK_WHY_BYTES,
                 "control socket %s: there is none; is the server running, with control=%s?",
                 path, path);
        break;
    case -ECONNREFUSED:
        snprintf(why, ASK_WHY_BYTES,
                 "control socket %s: nobody listens (was its server killed?): start it again",
                 path);
        break;
    case -EACCES:
        snprintf(why, ASK_WHY_BYTES,
                 "control socket %s: permission denied: it is for the user who started the "
                 "server, and root",
                 path);
        break;
    case -ENAMETOOLONG:
        snprintf(
            why, ASK_WHY_BYTES,
            "control socket %s: the path is too long for a socket: name it from its folder",
            path);
        break;
    case -ETIMEDOUT:
        snprintf(why, ASK_WHY_BYTES,
                 "control socket %s: the server does not answer: it may be recovering, stopped "
                 "by a signal, or no nbdkit journal; try again",
                 path);
        break;
    case -EPIPE:
    case -ECONNRESET:
        snprintf(why, ASK_WHY_BYTES, "control socket %s: the server has hung up; try again",
                 path);
        break;
    default:
        snprintf(why, ASK_WHY_BYTES, "control socket %s: %s", path, strerror(-error));
    }
}

/* NULL and why: what came is no answer of our servers. */
static json_t *parse(const char *path, const struct answer *a, char why[ASK_WHY_BYTES])
{
    json_t *o = json_loadb(a->bytes, a->count, 0, NULL);
    const char *error = ask_text(o, "error");

    if (!json_is_object(o))
        snprintf(why, ASK_WHY_BYTES,
                 "control socket %s: what listens there is no nbdkit journal: its answer is no "
                 "JSON object",
                 path);
    else if (error != NULL)
        snprintf(why, ASK_WHY_BYTES, "control socket %s: the server says: %s", path, error);
    else if (ask_number(o, "protocol") != 1)
        snprintf(why, ASK_WHY_BYTES,
                 "control socket %s: the server speaks another protocol than this program: "
                 "update the older of the two",
                 path);
    else
        return o;
    json_decref(o);
    return NULL;
}

json_t *ask_control(const char *socket_path, const char *command, int timeout_ms,
                    char why[ASK_WHY_BYTES])
{
    struct answer a = {.deadline_ms = now_ms() + timeout_ms};
    json_t *o = NULL;
    int r = a.fd = open_socket(socket_path, a.deadline_ms);

    if (r >= 0) {
        r = send_command(&a, command);
        if (r == 0)
            r = receive(&a);
        close(a.fd);
    }
    if (r == 0)
        o = parse(socket_path, &a, why);
    else
        explain(socket_path, r, why);
    free(a.bytes);
    return o;
}

const json_t *ask_member(const json_t *o, const char *path)
{
    char key[64];

    for (;;) {
        size_t n = strcspn(path, ".");

        if (n >= sizeof(key))
            return NULL;
        memcpy(key, path, n);
        key[n] = '\0';
        o = json_object_get(o, key);
        if (path[n] == '\0')
            return o;
        path += n + 1;
    }
}

uint64_t ask_number(const json_t *o, const char *path)
{
    json_int_t n = json_integer_value(ask_member(o, path));

    return n > 0 ? (uint64_t)n : 0;
}

bool ask_flag(const json_t *o, const char *path)
{
    return json_is_true(ask_member(o, path));
}

const char *ask_text(const json_t *o, const char *path)
{
    return json_string_value(ask_member(o, path));
}
