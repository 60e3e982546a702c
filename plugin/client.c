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

struct plugin_client *plugin_client_new(bool may_write)
{
    struct plugin_client *client = malloc(sizeof(*client));

    if (client == NULL) {
        nbdkit_error("malloc: %m");
        return NULL;
    }
    client->who.connection = atomic_fetch_add(&next_connection, 1);
    client->who.client = peer(client->who.connection);
    client->may_write = may_write;
    return client;
}
