/* plugin: what the files of the plugin share.
 *
 *   parameters.c   config, config_complete, --help, --dump-plugin
 *   client.c       who is behind a connection
 *   journal.c      life cycle and requests
 *   log.c          the words of journal/ in nbdkit's log, its errors on NBD's wire
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "control.h"
#include "engine.h"
#include "stats.h"

/* parameters.c */
extern struct engine_config plugin_config;
extern const char plugin_config_help[];
int plugin_config_set(const char *key, const char *value);
int plugin_config_complete(void);
void plugin_dump(void);
void plugin_config_free(void);

extern char *plugin_control_path; /* control=; NULL: no socket */

extern bool plugin_client_is_peer; /* client=peer, not client=connection */

/* client.c */
struct plugin_client { /* a connection's handle */
    struct engine_client who;
    struct engine_disk *disk;
    bool may_write;
};
/* Takes over the open disk.  NULL: no memory, reported. */
struct plugin_client *plugin_client_new(struct engine_disk *disk, const char *export,
                                        bool may_write);

/* log.c */
void plugin_log_begin(void);
/* -1 with nbdkit's error set for `error` (-errno), or 0 for >= 0: what a callback returns. */
int plugin_result(int error);

#endif
