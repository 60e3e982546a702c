/* socket_argument: the SOCKET of a running server, as `stats` and `top` take it. */
#ifndef NBDJOURNAL_SOCKET_ARGUMENT_H
#define NBDJOURNAL_SOCKET_ARGUMENT_H

#include <argp.h>

/* What a parser of argp does with all that it does not know itself: exactly one argument comes to
 * *socket. */
error_t socket_argument(int key, char *argument, struct argp_state *state, const char **socket);

#endif
