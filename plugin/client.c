/* client: who is behind a connection.
 *
 * Several connections of one peer are one client: on TCP those from one address (the port is
 * the
 * connection's), on a Unix socket those of one process.  It steers how long a commit waits
 * for company, and
 * statistics; safety never depends on it, so what a peer could fake does no harm.
 */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <xxhash.h>

#include "plugin.h"

/* Never used twice: a new connection is nobody's successor. */
static atomic_uint_fast64_t next_connection = 1;

static uint64_t sum(const void *bytes, size_t count)
{
    return XXH3_64bits(bytes, count);
}

static uint64_t peer(uint64_t connection)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    int64_t process[2];

    if (!plugin_client_is_peer || nbdkit_peer_name((struct sockaddr *)&address, &length) < 0)
        return connection;
    switch (address.ss_family) {
    case AF_INET:
        return sum(&((struct sockaddr_in *)&address)->sin_addr, sizeof(struct in_addr));
    case AF_INET6:
        return sum(&((struct sockaddr_in6 *)&address)->sin6_addr, sizeof(struct in6_addr));
    case AF_UNIX:
        process[0] = nbdkit_peer_pid();
        process[1] = nbdkit_peer_uid();
        return process[0] < 0 ? connection : sum(process, sizeof(process));
    default:
        return connection;
    }
}

/* One who has several disks is several clients: each disk has its own file system, and one of
 * them flushes whatever the others do. */
static uint64_t peer_of_export(uint64_t connection, const char *export)
{
    uint64_t both[2] = {peer(connection), sum(export, strlen(export))};

    return sum(both, sizeof(both));
}

struct plugin_client *plugin_client_new(struct engine_disk *disk, const char *export,
                                        bool may_write)
{
    struct plugin_client *client = malloc(sizeof(*client));

    if (client == NULL) {
        nbdkit_error("malloc: %m");
        engine_disk_close(disk);
        return NULL;
    }
    client->who.connection = atomic_fetch_add(&next_connection, 1);
    client->who.client = peer_of_export(client->who.connection, export);
    client->disk = disk;
    client->may_write = may_write;
    return client;
}
