/* journal: an nbdkit plugin that serves a raw image through a write-ahead journal.
 *
 * Thin: parameters in, the engine's functions, errors out.  What is done when follows from how
 * nbdkit lives (1.32):
 *   get_ready    open, lock, recover: errors are seen by who starts us, and we may still be root
 *   after_fork   threads: those made before it would be lost in the fork
 *   open         only here `nbdkit -r` shows; the first client that may write makes the journal
 *                writable (new epoch, mark on the image)
 *   cleanup      the clean stop: close is not called for clients that are there when nbdkit quits
 *   unload       frees
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugin.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* Seconds that a stop may take to bring home what is in the journal.  Supervisors kill after 90
 * (systemd's default); a third of that is left for nbdkit, and for the step that is under way
 * when the time is over.  What is left over then stays in the journal. */
#define STOP_SECONDS 60

/* nbdkit -D journal.commit=1: a line of debug for each commit. */
NBDKIT_DLL_PUBLIC int journal_debug_commit;

static struct engine *engine;
static struct control *control;

static void plugin_load(void)
{
    plugin_log_begin();
}

static void plugin_unload(void)
{
    engine_close(engine);
    engine = NULL;
    control_close(control);
    control = NULL;
    plugin_config_free();
}

static void serve_control(void *opaque, struct ev_loop *loop)
{
    (void)opaque;
    control_serve(control, engine, loop);
}

/* Before the engine: what is wrong with the path is said before a journal is created. */
static int open_control(void)
{
    if (plugin_control_path == NULL || plugin_config.recover == ENGINE_RECOVER_ONLY_CHECK)
        return 0;
    plugin_config.loop_begin = serve_control;
    return control_open(&control, plugin_control_path);
}

static int plugin_get_ready(void)
{
    int r = open_control();

    if (r < 0)
        return plugin_result(r);
    plugin_config.trace_commits = journal_debug_commit;
    r = engine_open(&engine, &plugin_config);
    if (r < 0) { /* nbdkit ends without calling unload */
        control_close(control);
        control = NULL;
    }
    if (r == -ECANCELED) {
        /* recover=only-check, and all is well: said.  nbdkit has no way to end here with
         * success, and there is nothing yet to clean up: no socket, no pid file, no thread. */
        fflush(NULL);
        exit(EXIT_SUCCESS);
    }
    return plugin_result(r);
}

static int plugin_after_fork(void)
{
    return plugin_result(engine_start(engine));
}

static void plugin_cleanup(void)
{
    if (engine == NULL)
        return;
    engine_stop(engine, STOP_SECONDS);
    control_close(control);
    control = NULL;
}

/* ---- exports ---- */

static const char *const description = "a raw disk image behind a write-ahead journal";

static int add_export(void *opaque, const char *name, uint64_t bytes)
{
    (void)bytes;
    return nbdkit_add_export(opaque, name, description) < 0 ? -ENOMEM : 0;
}

static int plugin_list_exports(int readonly, int is_tls, struct nbdkit_exports *exports)
{
    (void)readonly;
    (void)is_tls;
    if (plugin_config.dir_path == NULL)
        return nbdkit_add_export(exports, "", description);
    return plugin_result(engine_visit_images(engine, add_export, exports));
}

/* The name of the only image; else "", and opening it says that a name is needed. */
static const char *plugin_default_export(int readonly, int is_tls)
{
    char name[NAME_MAX + 1];

    (void)readonly;
    (void)is_tls;
    if (engine_sole_name(engine, name))
        return nbdkit_strdup_intern(name);
    return "";
}

static const char *plugin_export_description(void *handle)
{
    (void)handle;
    return description;
}

/* ---- connections ---- */

/* P9: what other connections had admitted before has its place in the order already, since
 * admission takes the engine's one lock; nothing is asked of a new connection.  And nbdkit calls
 * pwrite only with a payload that arrived whole. */
static void *plugin_open(int readonly)
{
    const char *name = nbdkit_export_name();
    struct engine_disk *disk;
    int r;

    if (name == NULL)
        return NULL;
    r = engine_disk_open(engine, name, readonly, &disk);
    if (r < 0) {
        nbdkit_error("the disk can't be opened, so this client is refused");
        plugin_result(r);
        return NULL;
    }
    return plugin_client_new(disk, name, !readonly && !engine_disk_read_only(disk));
}

static void plugin_close(void *handle)
{
    struct plugin_client *client = handle;

    engine_disconnect(engine, &client->who);
    engine_disk_close(client->disk);
    free(client);
}

/* The client that a request is from. */
static const struct engine_client *who(void *handle)
{
    return &((struct plugin_client *)handle)->who;
}

static struct stats_client *stats_of(void *handle)
{
    return ((struct plugin_client *)handle)->who.stats;
}

static struct engine_disk *disk_of(void *handle)
{
    return ((struct plugin_client *)handle)->disk;
}

static int64_t plugin_get_size(void *handle)
{
    return engine_disk_size(disk_of(handle));
}

static int plugin_can_write(void *handle)
{
    return ((struct plugin_client *)handle)->may_write;
}

/* Who can't write has nothing to flush.  What an earlier life of the server has answered gets
 * durable with the first client that may write, since that takes writing (staging). */
static int plugin_can_flush(void *handle)
{
    return ((struct plugin_client *)handle)->may_write;
}

static int plugin_yes(void *handle)
{
    (void)handle;
    return 1;
}

static int plugin_can_fua(void *handle)
{
    (void)handle;
    return NBDKIT_FUA_NATIVE;
}

static int plugin_can_cache(void *handle)
{
    (void)handle;
    return NBDKIT_CACHE_NATIVE;
}

static int plugin_is_rotational(void *handle)
{
    return engine_disk_is_rotational(disk_of(handle));
}

static int plugin_block_size(void *handle, uint32_t *minimum, uint32_t *preferred,
                             uint32_t *maximum)
{
    (void)handle;
    *minimum = 1;
    *preferred = 4096;
    /* P3: what is larger is done, too, but in parts. */
    *maximum = engine_atomic_max(engine);
    return 0;
}

/* ---- requests ---- */

static int plugin_pread(void *handle, void *buf, uint32_t count, uint64_t offset,
                        uint32_t flags)
{
    (void)flags;
    return plugin_result(stats_count(stats_of(handle), STATS_READ, count, false,
                                     engine_read(disk_of(handle), buf, count, offset)));
}

static int plugin_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset,
                         uint32_t flags)
{
    bool fua = flags & NBDKIT_FLAG_FUA;
    int r = engine_write(disk_of(handle), buf, count, offset, fua, who(handle));

    return plugin_result(stats_count(stats_of(handle), STATS_WRITE, count, fua, r));
}

static int plugin_flush(void *handle, uint32_t flags)
{
    (void)flags;
    return plugin_result(stats_count(stats_of(handle), STATS_FLUSH, 0, false,
                                     engine_flush(disk_of(handle), who(handle))));
}

static int plugin_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    bool fua = flags & NBDKIT_FLAG_FUA;
    int r = engine_trim(disk_of(handle), count, offset, fua, who(handle));

    return plugin_result(stats_count(stats_of(handle), STATS_TRIM, count, fua, r));
}

/* Always fast, so FAST_ZERO needs no look: one record, whatever the length. */
static int plugin_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    bool fua = flags & NBDKIT_FLAG_FUA;
    int r = engine_zero(disk_of(handle), count, offset, flags & NBDKIT_FLAG_MAY_TRIM, fua,
                        who(handle));

    return plugin_result(stats_count(stats_of(handle), STATS_ZERO, count, fua, r));
}

static int plugin_cache(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    (void)flags;
    return plugin_result(engine_cache(disk_of(handle), count, offset));
}

struct extents_request {
    struct nbdkit_extents *extents;
    bool one;
};

static int add_extent(void *opaque, uint64_t offset, uint64_t length, enum engine_extent kind)
{
    struct extents_request *request = opaque;
    uint32_t type = 0;

    if (kind == ENGINE_HOLE_ZERO)
        type = NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO;
    else if (kind == ENGINE_ZERO)
        type = NBDKIT_EXTENT_ZERO;
    if (nbdkit_add_extent(request->extents, offset, length, type) < 0)
        return -errno;
    return request->one;
}

static int plugin_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
                          struct nbdkit_extents *extents)
{
    struct extents_request request = {
        .extents = extents,
        .one = flags & NBDKIT_FLAG_REQ_ONE,
    };

    return plugin_result(engine_extents(disk_of(handle), count, offset, add_extent, &request));
}

static struct nbdkit_plugin plugin = {
    .name = "journal",
    .longname = "nbdkit journal plugin",
    .version = PACKAGE_VERSION,
    .description = "raw disk images behind a write-ahead journal",
    .load = plugin_load,
    .unload = plugin_unload,
    .config = plugin_config_set,
    .config_complete = plugin_config_complete,
    .config_help = plugin_config_help,
    .magic_config_key = "file",
    .dump_plugin = plugin_dump,
    .get_ready = plugin_get_ready,
    .after_fork = plugin_after_fork,
    .cleanup = plugin_cleanup,
    .list_exports = plugin_list_exports,
    .default_export = plugin_default_export,
    .open = plugin_open,
    .close = plugin_close,
    .export_description = plugin_export_description,
    .get_size = plugin_get_size,
    .can_write = plugin_can_write,
    .can_flush = plugin_can_flush,
    .can_trim = plugin_yes,
    .can_zero = plugin_yes,
    .can_fast_zero = plugin_yes,
    .can_fua = plugin_can_fua,
    .can_multi_conn = plugin_yes,
    .can_extents = plugin_yes,
    .can_cache = plugin_can_cache,
    .is_rotational = plugin_is_rotational,
    .block_size = plugin_block_size,
    .pread = plugin_pread,
    .pwrite = plugin_pwrite,
    .flush = plugin_flush,
    .trim = plugin_trim,
    .zero = plugin_zero,
    .cache = plugin_cache,
    .extents = plugin_extents,
};

struct nbdkit_plugin *plugin_init(void); /* what nbdkit looks up; its header has no prototype */
NBDKIT_REGISTER_PLUGIN(plugin)
