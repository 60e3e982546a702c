/* load_setup: the parts of a load, and whether a server can take it. */
#ifndef NBDLOAD_LOAD_SETUP_H
#define NBDLOAD_LOAD_SETUP_H

#include "load_state.h"

/* `ledger` is null or open for the options' URIs; `trace` is null unless the pattern is one. */
void load_init(struct load *load, const struct options *options, struct ledger *ledger,
               const struct trace *trace);

void load_destroy(struct load *load);

/* It can't go on.  Only the first reason is kept; `refused` is the exit code if the server is
 * not to blame, else 0. */
__attribute__((format(printf, 3, 4))) void load_fail(struct load *load, int refused,
                                                     const char *format, ...);

/* Whether a connection that is ready can take the load; else load_fail was called. */
bool load_accept(struct load *load, struct connection *c);

#endif
