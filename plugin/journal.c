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

static void plugin_load(void)
{
    plugin_log_begin();
}

static void plugin_unload(void)
{
    engine_close(engine);
    engine = NULL;
    plugin_config_free();
}

static int plugin_get_ready(void)
{
    int r;

    plugin_config.trace_commits = journal_debug_commit;
    r = engine_open(&engine, &plugin_config);
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
    if (engine != NULL)
        engine_stop(engine, STOP_SECONDS);
}

/* ---- connections ---- */

/* P9: what other connections had admitted before has its place in the order already, since
 * admission takes the engine's one lock; nothing is asked of a new connection.  And nbdkit calls
 * pwrite only with a payload that arrived whole. */
static void *plugin_open(int readonly)
{
    bool may_write = !readonly && !engine_read_only(engine);
    int r = may_write ? engine_activate(engine) : 0;

    if (r < 0) {
        nbdkit_error("the journal can't be made writable, so this client is refused");
        plugin_result(r);
        return NULL;
    }
    return plugin_client_new(may_write);
}

static void plugin_close(void *handle)
{
    struct plugin_client *client = handle;

    engine_disconnect(engine, &client->who);
    free(client);
}

/* The client that a request is from. */
static const struct engine_client *who(void *handle)
{
    return &((struct plugin_client *)handle)->who;
}

static int64_t plugin_get_size(void *handle)
{
    (void)handle;
    return engine_image_size(engine);
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
    (void)handle;
    return engine_is_rotational(engine);
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
    (void)handle;
    (void)flags;
    return plugin_result(engine_read(engine, buf, count, offset));
}

static int plugin_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset,
                         uint32_t flags)
{
    return plugin_result(
        engine_write(engine, buf, count, offset, flags & NBDKIT_FLAG_FUA, who(handle)));
}

static int plugin_flush(void *handle, uint32_t flags)
{
    (void)flags;
    return plugin_result(engine_flush(engine, who(handle)));
}

static int plugin_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    return plugin_result(
        engine_trim(engine, count, offset, flags & NBDKIT_FLAG_FUA, who(handle)));
}

/* Always fast, so FAST_ZERO needs no look: one record, whatever the length. */
static int plugin_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    return plugin_result(engine_zero(engine, count, offset, flags & NBDKIT_FLAG_MAY_TRIM,
                                     flags & NBDKIT_FLAG_FUA, who(handle)));
}

static int plugin_cache(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    (void)handle;
    (void)flags;
    return plugin_result(engine_cache(engine, count, offset));
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

    (void)handle;
    return plugin_result(engine_extents(engine, count, offset, add_extent, &request));
}

static struct nbdkit_plugin plugin = {
    .name = "journal",
    .longname = "nbdkit journal plugin",
    .version = PACKAGE_VERSION,
    .description = "a raw disk image behind a write-ahead journal",
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
    .open = plugin_open,
    .close = plugin_close,
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
