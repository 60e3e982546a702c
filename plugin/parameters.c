/* parameters: the plugin's command line, --help and --dump-plugin.
 *
 * Paths are made absolute at once: nbdkit changes to / before the first client.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "report.h"

/* Bound of the map from image to journal, 64 bytes for each piece of the image whose newest
 * bytes are in the journal: four million pieces, enough for 16 GiB of random writes of 4 KiB. */
#define MEMORY_DEFAULT (UINT64_C(256) << 20)
/* 16384 pieces.  With fewer the map would be full, and checkpointed, all the time. */
#define MEMORY_MIN (UINT64_C(1) << 20)

/* bypass=: what nbdload's promises and most file systems' metadata stay below. */
#define BYPASS_DEFAULT (UINT64_C(64) << 10)
#define BYPASS_MIN UINT64_C(4096)

/* A second: longer than any commit should take. */
#define BATCH_TIME_MAX_US 1000000u

#define COMMIT_INTERVAL_MIN 0.01
#define COMMIT_INTERVAL_MAX 3600.

struct engine_config plugin_config = {
    .recover = ENGINE_RECOVER_DEFAULT,
    .bypass_bytes = BYPASS_DEFAULT,
    .commit_interval_s = 5,
    .memory_bytes = MEMORY_DEFAULT,
    .batch = BATCH_CONFIG_DEFAULT,
};

bool plugin_client_is_peer = true;

static bool journal_all; /* data=journal */
char *plugin_control_path;

static char *image_path, *dir_path, *journal_path;

const char plugin_config_help[] =
    "[file=]<IMAGE>            Raw disk image or block device to serve, or:\n"
    "dir=<DIR>                 Each image in this folder is an export; one journal.\n"
    "journal=<PATH>            Its journal, a file or a block device.\n"
    "                          Default: IMAGE.journal or DIR/.journal.\n"
    "journal-size=<SIZE>       Size of a journal that is created (at least 1M).\n"
    "                          Default: depends on the size of the images.\n"
    "data=ordered|journal      Large writes go straight to the image, or through the\n"
    "                          journal like all others.  Default: ordered.\n"
    "bypass=<SIZE>             Writes of at least this size are large.  Default: 64K.\n"
    "recover=yes|no|only-check What to do when the journal holds data.\n"
    "                          Default: yes.\n"
    "commit-interval=<SECONDS> Unflushed writes are committed by then.  Default: 5.\n"
    "batch=rally|jbd2|jbd|none How long a commit waits for company.  Default: rally.\n"
    "min-batch-time=<USEC>     At least so long, if at all.  Default: 0.\n"
    "max-batch-time=<USEC>     Never longer; 0: never.  Default: 15000.\n"
    "client=peer|connection    Who is one client.  Default: peer.\n"
    "memory=<SIZE>             Bound of the memory for the map.  Default: 256M.\n"
    "control=<SOCKET>          Answers `nbdjournal stats` and `top` on this Unix socket.";

static void refuse_path(const char *key, const char *value)
{
    if (errno == ENOENT && strcmp(key, "file") == 0)
        nbdkit_error("there is no image %s: check the path, or create it (truncate -s SIZE %s)",
                     value, value);
    else if (errno == ENOENT)
        nbdkit_error("there is no folder %s: check the path, or create it (mkdir %s)", value,
                     value);
    else
        nbdkit_error("%s=%s: %s", key, value, report_reason(errno));
}

static int set_path(char **path, const char *key, const char *value, bool must_exist)
{
    char *absolute;

    if (*value == '\0') {
        nbdkit_error("%s= names nothing: give it a path", key);
        return -1;
    }
    /* The real path of the image, so that its journal is found beside it by every name. */
    absolute = must_exist ? realpath(value, NULL) : nbdkit_absolute_path(value);
    if (absolute == NULL) {
        if (must_exist)
            refuse_path(key, value);
        return -1;
    }
    free(*path);
    *path = absolute;
    return 0;
}

static int set_size(uint64_t *size, const char *key, const char *value, uint64_t min)
{
    int64_t parsed = nbdkit_parse_size(value);

    if (parsed < 0) {
        nbdkit_error("%s=%s is no size: write for example 64M or 1G", key, value);
        return -1;
    }
    if ((uint64_t)parsed < min) {
        nbdkit_error("%s=%s is too small: at least %" PRIu64 " bytes are needed", key, value,
                     min);
        return -1;
    }
    *size = parsed;
    return 0;
}

static int set_commit_interval(const char *value)
{
    char *end;
    double seconds;

    errno = 0;
    seconds = strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0' || !isfinite(seconds) ||
        seconds < COMMIT_INTERVAL_MIN || seconds > COMMIT_INTERVAL_MAX) {
        nbdkit_error("commit-interval=%s: must be a number of seconds from %g to %g", value,
                     COMMIT_INTERVAL_MIN, COMMIT_INTERVAL_MAX);
        return -1;
    }
    plugin_config.commit_interval_s = seconds;
    return 0;
}

static int set_batch(const char *value)
{
    const char *name;

    for (unsigned i = 0; (name = batch_policy_name(i)) != NULL; i++) {
        if (strcmp(value, name) == 0) {
            plugin_config.batch.policy = name;
            return 0;
        }
    }
    nbdkit_error("batch=%s: must be rally, jbd2, jbd or none", value);
    return -1;
}

static int set_batch_time(uint64_t *us, const char *key, const char *value)
{
    uint64_t parsed;

    if (nbdkit_parse_uint64_t(key, value, &parsed) < 0)
        return -1;
    if (parsed > BATCH_TIME_MAX_US) {
        nbdkit_error("%s=%s: must be microseconds, from 0 to %u", key, value,
                     BATCH_TIME_MAX_US);
        return -1;
    }
    *us = parsed;
    return 0;
}

static int set_client(const char *value)
{
    plugin_client_is_peer = strcmp(value, "peer") == 0;
    if (plugin_client_is_peer || strcmp(value, "connection") == 0)
        return 0;
    nbdkit_error("client=%s: must be peer or connection", value);
    return -1;
}

static int set_recover(const char *value)
{
    if (strcmp(value, "yes") == 0) {
        plugin_config.recover = ENGINE_RECOVER_YES;
    } else if (strcmp(value, "no") == 0) {
        plugin_config.recover = ENGINE_RECOVER_NO;
    } else if (strcmp(value, "only-check") == 0) {
        plugin_config.recover = ENGINE_RECOVER_ONLY_CHECK;
    } else {
        nbdkit_error("recover=%s: must be yes, no or only-check", value);
        return -1;
    }
    return 0;
}

int plugin_config_set(const char *key, const char *value)
{
    uint64_t memory;

    if (strcmp(key, "file") == 0)
        return set_path(&image_path, key, value, true);
    if (strcmp(key, "dir") == 0)
        return set_path(&dir_path, key, value, true);
    if (strcmp(key, "journal") == 0)
        return set_path(&journal_path, key, value, false);
    if (strcmp(key, "journal-size") == 0)
        return set_size(&plugin_config.journal_size, key, value, FORMAT_JOURNAL_MIN);
    if (strcmp(key, "memory") == 0) {
        if (set_size(&memory, key, value, MEMORY_MIN) < 0)
            return -1;
        plugin_config.memory_bytes = memory;
        return 0;
    }
    if (strcmp(key, "bypass") == 0)
        return set_size(&plugin_config.bypass_bytes, key, value, BYPASS_MIN);
    if (strcmp(key, "commit-interval") == 0)
        return set_commit_interval(value);
    if (strcmp(key, "batch") == 0)
        return set_batch(value);
    if (strcmp(key, "min-batch-time") == 0)
        return set_batch_time(&plugin_config.batch.min_us, key, value);
    if (strcmp(key, "max-batch-time") == 0)
        return set_batch_time(&plugin_config.batch.max_us, key, value);
    if (strcmp(key, "client") == 0)
        return set_client(value);
    if (strcmp(key, "recover") == 0)
        return set_recover(value);
    if (strcmp(key, "control") == 0)
        return set_path(&plugin_control_path, key, value, false);
    if (strcmp(key, "data") == 0) {
        journal_all = strcmp(value, "journal") == 0;
        if (journal_all || strcmp(value, "ordered") == 0)
            return 0;
        nbdkit_error("data=%s: must be ordered or journal", value);
        return -1;
    }
    nbdkit_error("unknown parameter '%s'; `nbdkit journal --help` lists them", key);
    return -1;
}

int plugin_config_complete(void)
{
    if (image_path == NULL && dir_path == NULL) {
        nbdkit_error("which image? Say file=IMAGE, or dir=DIR for all images in a folder");
        return -1;
    }
    if (image_path != NULL && dir_path != NULL) {
        nbdkit_error("file= and dir= exclude each other: say file=IMAGE for one image, or "
                     "dir=DIR for all in a folder");
        return -1;
    }
    if (plugin_config.batch.min_us > plugin_config.batch.max_us) {
        nbdkit_error("min-batch-time=%" PRIu64 " is above max-batch-time=%" PRIu64
                     ": lower the one or raise the other",
                     plugin_config.batch.min_us, plugin_config.batch.max_us);
        return -1;
    }
    if (journal_all)
        plugin_config.bypass_bytes = 0;
    plugin_config.image_path = image_path;
    plugin_config.dir_path = dir_path;
    plugin_config.journal_path = journal_path;
    return 0;
}

void plugin_config_free(void)
{
    free(image_path);
    free(dir_path);
    free(journal_path);
    free(plugin_control_path);
    plugin_control_path = NULL;
    image_path = dir_path = journal_path = NULL;
}

void plugin_dump(void)
{
    printf("journal_format_version=%d\n", FORMAT_VERSION);
    printf("journal_features=fua,flush,trim,zero,fast-zero,extents,cache,multi-conn,dir,"
           "control\n");
    printf("journal_size_min=%" PRIu64 "\n", FORMAT_JOURNAL_MIN);
    printf("journal_size_max=%" PRIu64 "\n", FORMAT_JOURNAL_MAX);
    printf("journal_record_max=%u\n", FORMAT_RECORD_MAX);
    printf("journal_memory_default=%" PRIu64 "\n", MEMORY_DEFAULT);
    printf("journal_data_modes=ordered,journal\n");
    printf("journal_bypass_default=%" PRIu64 "\n", BYPASS_DEFAULT);
}
