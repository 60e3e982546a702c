/* prometheus: the numbers of a server in Prometheus's text format. */
#ifndef NBDJOURNAL_PROMETHEUS_H
#define NBDJOURNAL_PROMETHEUS_H

#include <jansson.h>
#include <stdio.h>

/* `stats` is the answer of the control socket. */
void prometheus_print(FILE *out, const json_t *stats);

#endif
