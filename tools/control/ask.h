/* ask: asks a running server through its control socket (nbdkit-journal-plugin(1), CONTROL). */
#ifndef TOOLS_ASK_H
#define TOOLS_ASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define ASK_WHY_BYTES 512

/* The answer to this command; the caller's.  NULL: none, and why in words, which name the socket
 * and say what to do.  A server that does not answer is given up after timeout_ms. */
json_t *ask_control(const char *socket_path, const char *command, int timeout_ms,
                    char why[ASK_WHY_BYTES]);

/* A member by its path, "commits.time.p50_ns"; 0 or NULL if it is not there, as from an older
 * server. */
uint64_t ask_number(const json_t *o, const char *path);
bool ask_flag(const json_t *o, const char *path);
const char *ask_text(const json_t *o, const char *path);
const json_t *ask_member(const json_t *o, const char *path);

#endif
