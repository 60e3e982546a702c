/* socket_argument: see socket_argument.h. */
#include "socket_argument.h"

error_t socket_argument(int key, char *argument, struct argp_state *state, const char **socket)
{
    switch (key) {
    case ARGP_KEY_ARG:
        if (*socket != NULL)
            argp_error(state, "one server at a time");
        *socket = argument;
        return 0;
    case ARGP_KEY_END:
        if (*socket == NULL)
            argp_error(state, "which SOCKET?  That of a server with control=SOCKET");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}
