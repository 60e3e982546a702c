/* nbd-keep: a kernel NBD device that outlives its server, for the tests.
 *
 *   nbd-keep IPV4 PORT INDEX CONNECTIONS SECONDS
 *
 * Makes /dev/nbdINDEX with so many connections, says "connected", and stays.  When one of them
 * dies, it connects anew until the server answers and hands the socket to the kernel, which holds the
 * requests back meanwhile, for SECONDS at most.  Both have to be asked for by netlink: without
 * dead_conn_timeout the kernel answers with errors as soon as the last connection is dead, and
 * nbd-client (3.24) does not set it.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/nbd-netlink.h>
#include <netinet/tcp.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A request that got no answer is sent again after this: the kernel does not look whether the connection
 * that it was sent on is dead before. */
#define REQUEST_TIMEOUT_S 3
#define CONNECTIONS_MAX 16

#define OPTION_EXPORT_NAME 1
#define CLIENT_FIXED_NEWSTYLE_NO_ZEROES 3u
static const char greeting_magic[] = "NBDMAGICIHAVEOPT";

struct export
{
    uint64_t size;
    uint16_t flags;
};

struct keeper {
    struct sockaddr_in server;
    uint32_t index;
    uint64_t dead_seconds;
    struct nl_sock *commands;
    int family;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "nbd-keep: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static bool transfer(int fd, void *data, size_t bytes, bool out)
{
    for (char *at = data; bytes > 0;) {
        ssize_t n = out ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);

        if (n <= 0)
            return false;
        at += n;
        bytes -= n;
    }
    return true;
}

static bool negotiate(int fd, struct export *export)
{
    struct __attribute__((packed)) {
        char magic[16];
        uint16_t flags;
    } greeting;
    struct __attribute__((packed)) {
        uint32_t flags;
        char magic[8];
        uint32_t option, bytes;
    } ask = {
        .flags = htobe32(CLIENT_FIXED_NEWSTYLE_NO_ZEROES),
        .magic = {'I', 'H', 'A', 'V', 'E', 'O', 'P', 'T'},
        .option = htobe32(OPTION_EXPORT_NAME),
    };
    struct __attribute__((packed)) {
        uint64_t size;
        uint16_t flags;
    } answer;

    if (!transfer(fd, &greeting, sizeof(greeting), false) ||
        memcmp(greeting.magic, greeting_magic, sizeof(greeting.magic)) != 0 ||
        !transfer(fd, &ask, sizeof(ask), true) || !transfer(fd, &answer, sizeof(answer), false))
        return false;
    export->size = be64toh(answer.size);
    export->flags = be16toh(answer.flags);
    return true;
}

/* Waits until there is a server. */
static int connection_open(const struct keeper *k, struct export *export)
{
    while (true) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        if (fd < 0)
            die("socket", strerror(errno));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (connect(fd, (const struct sockaddr *)&k->server, sizeof(k->server)) == 0 &&
            negotiate(fd, export))
            return fd;
        close(fd);
        usleep(50000);
    }
}

static struct nl_msg *command_new(const struct keeper *k, int command, int flags)
{
    struct nl_msg *msg = nlmsg_alloc();

    if (msg == NULL ||
        genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, k->family, 0, flags, command, 0) == NULL)
        die("netlink", "no memory");
    nla_put_u32(msg, NBD_ATTR_INDEX, k->index);
    return msg;
}

static void command_put_sockets(struct nl_msg *msg, const int *fds, unsigned count)
{
    struct nlattr *sockets = nla_nest_start(msg, NBD_ATTR_SOCKETS), *item;

    for (unsigned i = 0; i < count; i++) {
        item = nla_nest_start(msg, NBD_SOCK_ITEM);
        nla_put_u32(msg, NBD_SOCK_FD, fds[i]);
        nla_nest_end(msg, item);
    }
    nla_nest_end(msg, sockets);
}

/* A command is answered by one message: data, an acknowledgement if it was asked for, or an error. */
static void command_send(struct keeper *k, struct nl_msg *msg, const char *what)
{
    int r = nl_send_auto(k->commands, msg);

    nlmsg_free(msg);
    if (r >= 0)
        r = nl_recvmsgs_default(k->commands);
    if (r < 0)
        die(what, nl_geterror(r));
}

static void device_make(struct keeper *k, unsigned connections)
{
    struct nl_msg *msg = command_new(k, NBD_CMD_CONNECT, 0);
    struct export export = {0};
    int fds[CONNECTIONS_MAX];

    for (unsigned i = 0; i < connections; i++)
        fds[i] = connection_open(k, &export);
    nla_put_u64(msg, NBD_ATTR_SIZE_BYTES, export.size);
    nla_put_u64(msg, NBD_ATTR_BLOCK_SIZE_BYTES, 512);
    nla_put_u64(msg, NBD_ATTR_SERVER_FLAGS, export.flags);
    nla_put_u64(msg, NBD_ATTR_TIMEOUT, REQUEST_TIMEOUT_S);
    nla_put_u64(msg, NBD_ATTR_DEAD_CONN_TIMEOUT, k->dead_seconds);
    command_put_sockets(msg, fds, connections);
    command_send(k, msg, "connect");
    /* The kernel has its own references. */
    for (unsigned i = 0; i < connections; i++)
        close(fds[i]);
}

/* One message for each connection that died. */
static int connection_died(struct nl_msg *event, void *data)
{
    struct nlmsghdr *header = nlmsg_hdr(event);
    struct genlmsghdr *what = nlmsg_data(header);
    struct nlattr *attributes[NBD_ATTR_MAX + 1];
    struct keeper *k = data;
    struct export export;
    struct nl_msg *msg;
    int fd;

    if (what->cmd != NBD_CMD_LINK_DEAD ||
        genlmsg_parse(header, 0, attributes, NBD_ATTR_MAX, NULL) < 0 ||
        attributes[NBD_ATTR_INDEX] == NULL ||
        nla_get_u32(attributes[NBD_ATTR_INDEX]) != k->index)
        return NL_OK;
    fd = connection_open(k, &export);
    msg = command_new(k, NBD_CMD_RECONFIGURE, NLM_F_ACK);
    command_put_sockets(msg, &fd, 1);
    command_send(k, msg, "reconfigure");
    close(fd);
    printf("KEEP: connected again\n");
    fflush(stdout);
    return NL_OK;
}

static struct nl_sock *netlink_open(void)
{
    struct nl_sock *sock = nl_socket_alloc();

    if (sock == NULL || genl_connect(sock) < 0)
        die("netlink", "can't connect");
    nl_socket_disable_auto_ack(sock);
    return sock;
}

int main(int argc, char **argv)
{
    struct keeper k = {.server.sin_family = AF_INET};
    unsigned connections;
    struct nl_sock *events;
    int group, r;

    if (argc != 6 || inet_pton(AF_INET, argv[1], &k.server.sin_addr) != 1)
        die("usage", "nbd-keep IPV4 PORT INDEX CONNECTIONS SECONDS");
    k.server.sin_port = htons(strtoul(argv[2], NULL, 10));
    k.index = strtoul(argv[3], NULL, 10);
    connections = strtoul(argv[4], NULL, 10);
    k.dead_seconds = strtoul(argv[5], NULL, 10);
    if (connections == 0 || connections > CONNECTIONS_MAX)
        die("usage", "1 to 16 connections");

    k.commands = netlink_open();
    k.family = genl_ctrl_resolve(k.commands, NBD_GENL_FAMILY_NAME);
    group = genl_ctrl_resolve_grp(k.commands, NBD_GENL_FAMILY_NAME, NBD_GENL_MCAST_GROUP_NAME);
    if (k.family < 0 || group < 0)
        die("netlink", "the kernel has no nbd");
    events = netlink_open();
    nl_socket_disable_seq_check(events);
    nl_socket_modify_cb(events, NL_CB_VALID, NL_CB_CUSTOM, connection_died, &k);
    /* Before the device is made: no death may be missed. */
    if ((r = nl_socket_add_membership(events, group)) < 0)
        die("netlink", nl_geterror(r));
    device_make(&k, connections);
    printf("KEEP: connected\n");
    fflush(stdout);
    while ((r = nl_recvmsgs_default(events)) >= 0)
        continue;
    die("netlink", nl_geterror(r));
}
