/* control_socket: see control_socket.h.
 *
 * What is at the path already decides:
 *   nothing                       it is made
 *   a socket, nobody listens      a killed server left it: replaced
 *   a socket, somebody listens    refused: that server is alive
 *   anything else                 refused, and not touched
 * Between the look and the new socket another server could come: so whoever does this has a lock
 * on the folder (flock), and so has who removes his socket.
 *
 * The mode is given to the socket before it has a name (Linux makes the file with it), so that
 * there is no moment when others may connect, and the process's umask is left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control_socket.h"
#include "report.h"

#define BACKLOG 16

/* Held for microseconds by others; a server that is stopped with SIGSTOP right then is no reason
 * to wait for ever. */
#define LOCK_ATTEMPTS 100
#define LOCK_PAUSE_US 10000

static int lock_folder(const char *path)
{
    char copy[PATH_MAX];
    int fd;

    strncpy(copy, path, sizeof(copy) - 1);
    copy[sizeof(copy) - 1] = '\0';
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        int error = errno;

        if ((error != EWOULDBLOCK && error != EINTR) || i == LOCK_ATTEMPTS) {
            close(fd);
            return -error;
        }
        usleep(LOCK_PAUSE_US);
    }
    return fd;
}

static int new_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

/* Is somebody listening?  0: no; 1: yes; -errno. */
static int is_alive(const struct sockaddr_un *address)
{
    int fd = new_socket(), error;

    if (fd < 0)
        return fd;
    error = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
    close(fd);
    switch (error) {
    case 0:
    case EAGAIN: /* so many wait already */
        return 1;
    case ECONNREFUSED:
    case ENOENT: /* gone this moment */
        return 0;
    default:
        return -error;
    }
}

/* Makes sure that nothing is at the path. */
static int make_way(const char *path, const struct sockaddr_un *address)
{
    struct stat st;
    int r;

    if (lstat(path, &st) < 0) {
        if (errno == ENOENT)
            return 0;
        r = -errno;
        report_error("control socket %s: %s", path, report_reason(-r));
        return r;
    }
    if (!S_ISSOCK(st.st_mode)) {
        report_error("control socket %s: a file that is no socket is there already, and it is "
                     "left alone; choose another control=SOCKET, or remove it",
                     path);
        return -EEXIST;
    }
    r = is_alive(address);
    if (r > 0) {
        report_error("control socket %s: a server is alive that listens on it; choose another "
                     "control=SOCKET, or stop that server",
                     path);
        return -EADDRINUSE;
    }
    if (r < 0) {
        report_error("control socket %s: can't find out whether the server that made it is "
                     "alive: %s; if it is not, remove the socket",
                     path, strerror(-r));
        return r;
    }
    if (unlink(path) < 0 && errno != ENOENT) {
        r = -errno;
        report_error("control socket %s of a server that is gone can't be removed: %s", path,
                     report_reason(-r));
        return r;
    }
    return 0;
}

static int bind_and_listen(struct control_socket *s, const struct sockaddr_un *address)
{
    struct stat st;
    int r;

    s->fd = new_socket();
    if (s->fd < 0)
        return s->fd;
    if (fchmod(s->fd, S_IRUSR | S_IWUSR) < 0 ||
        bind(s->fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
        return -errno;
    r = lstat(s->path, &st) < 0 ? -errno : 0;
    if (r == 0) {
        s->device = st.st_dev;
        s->inode = st.st_ino;
        if ((st.st_mode & 0777) != (S_IRUSR | S_IWUSR))
            r = chmod(s->path, S_IRUSR | S_IWUSR) < 0 ? -errno : 0;
    }
    if (r == 0 && listen(s->fd, BACKLOG) < 0)
        r = -errno;
    if (r < 0)
        unlink(s->path);
    return r;
}

int control_socket_open(struct control_socket *s, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int folder, r;

    *s = (struct control_socket){.fd = -1};
    if (strlen(path) >= sizeof(address.sun_path)) {
        report_error("control socket %s: its path has %zu bytes, and the address of a socket "
                     "has room for %zu: choose a shorter one",
                     path, strlen(path), sizeof(address.sun_path) - 1);
        return -ENAMETOOLONG;
    }
    strcpy(address.sun_path, path);
    folder = lock_folder(path);
    if (folder < 0) {
        report_error("control socket %s: its folder can't be %s: %s", path,
                     folder == -EWOULDBLOCK ? "locked" : "opened", report_reason(-folder));
        return folder;
    }
    r = make_way(path, &address);
    if (r < 0)
        goto out;
    s->path = strdup(path);
    r = s->path == NULL ? -ENOMEM : bind_and_listen(s, &address);
    if (r < 0)
        report_error("control socket %s can't be made: %s", path, report_reason(-r));
out:
    close(folder);
    if (r < 0) {
        if (s->fd >= 0)
            close(s->fd);
        free(s->path);
        *s = (struct control_socket){.fd = -1};
    }
    return r;
}

/* With another user's rights by now (nbdkit -u) the file may stay: the next server takes it for
 * what it is. */
void control_socket_close(struct control_socket *s)
{
    struct stat st;
    int folder;

    if (s->path == NULL)
        return;
    folder = lock_folder(s->path);
    if (lstat(s->path, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode &&
        unlink(s->path) < 0)
        report_debug("control socket %s stays: %s", s->path, strerror(errno));
    close(s->fd);
    if (folder >= 0)
        close(folder);
    free(s->path);
    *s = (struct control_socket){.fd = -1};
}
