/* client: who is behind a connection.
 *
 * Several connections of one peer are one client: on TCP those from one address (the port is
 * the connection's), on a Unix socket those of one process.  It steers how long a commit waits
 * for company, and statistics; safety never depends on it, so what a peer could fake does no
 * harm.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <xxhash.h>

#include "plugin.h"

/* The kernel keeps 15 bytes of a program's name. */
#define PROGRAM_BYTES 32

/* Never used twice: a new connection is nobody's successor. */
static atomic_uint_fast64_t next_connection = 1;

static uint64_t sum(const void *bytes, size_t count)
{
    return XXH3_64bits(bytes, count);
}

/* The program's name, for people: it may call itself what it likes. */
static void program_of(int64_t pid, char name[PROGRAM_BYTES])
{
    char path[64];
    size_t count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%" PRIi64 "/comm", pid);
    file = fopen(path, "re");
    if (file != NULL) {
        count = fread(name, 1, PROGRAM_BYTES - 1, file);
        fclose(file);
    }
    name[count] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (name[i] == '\n')
            name[i] = '\0';
        else if (name[i] < ' ' || name[i] > '~')
            name[i] = '?';
    }
}

static uint64_t process_peer(uint64_t connection, char label[STATS_LABEL_BYTES])
{
    int64_t process[2] = {nbdkit_peer_pid(), nbdkit_peer_uid()};
    char program[PROGRAM_BYTES];

    if (process[0] < 0)
        return connection;
    program_of(process[0], program);
    snprintf(label, STATS_LABEL_BYTES, "%s[%" PRIi64 "]", program, process[0]);
    return sum(process, sizeof(process));
}

/* Who it is, as a number and in words. */
static uint64_t peer(uint64_t connection, char label[STATS_LABEL_BYTES])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    const void *host;
    size_t host_bytes;

    snprintf(label, STATS_LABEL_BYTES, "connection %" PRIu64, connection);
    if (nbdkit_peer_name((struct sockaddr *)&address, &length) < 0)
        return connection;
    switch (address.ss_family) {
    case AF_INET:
        host = &((struct sockaddr_in *)&address)->sin_addr;
        host_bytes = sizeof(struct in_addr);
        break;
    case AF_INET6:
        host = &((struct sockaddr_in6 *)&address)->sin6_addr;
        host_bytes = sizeof(struct in6_addr);
        break;
    case AF_UNIX:
        return process_peer(connection, label);
    default:
        return connection;
    }
    inet_ntop(address.ss_family, host, label, STATS_LABEL_BYTES);
    return sum(host, host_bytes);
}

/* One who has several disks is several clients: each disk has its own file system, and one of
 * them flushes whatever the others do. */
static uint64_t peer_of_export(uint64_t connection, const char *export,
                               char label[STATS_LABEL_BYTES])
{
    uint64_t both[2] = {peer(connection, label), sum(export, strlen(export))};

    if (!plugin_client_is_peer)
        both[0] = connection;
    return sum(both, sizeof(both));
}

struct plugin_client *plugin_client_new(struct engine_disk *disk, const char *export,
                                        bool may_write)
{
    struct plugin_client *client = malloc(sizeof(*client));
    char label[STATS_LABEL_BYTES];

    if (client == NULL) {
        nbdkit_error("a client of export '%s' is refused: out of memory: it may try again",
                     export);
        engine_disk_close(disk);
        return NULL;
    }
    client->who.connection = atomic_fetch_add(&next_connection, 1);
    client->who.client = peer_of_export(client->who.connection, export, label);
    client->disk = disk;
    client->may_write = may_write;
    if (stats_connect(disk, label, &client->who) < 0) {
        nbdkit_error("a client of export '%s' is refused: out of memory: it may try again",
                     export);
        engine_disk_close(disk);
        free(client);
        return NULL;
    }
    return client;
}
