/* serve_open: what happens before the first client: open, lock, compare, recover.  The images of
 * a folder are opened and compared when they are needed (serve_disk.c).
 *
 * Nothing is modified here, but for a missing journal, which is created: an image that is
 * served read-only (known only when a client connects) and everything that is refused stay as
 * they were (P6).
 *
 * An image without permission to write it, or its journal, is served read-only, with what
 * recovery found laid over it in memory.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine_state.h"
#include "report.h"
#include "staging.h"

/* Recovery says how far it is after this long, and then each time as long. */
#define PROGRESS_FIRST_NS UINT64_C(1000000000)
#define PROGRESS_NEXT_NS UINT64_C(10000000000)

/* ---- a missing journal ---- */

static int refuse_without_journal(struct storage *image, const char *path,
                                  const struct image_mark *mark)
{
    report_error(
        "image %s: data may wait for it in the journal %s, and %s does not exist; bring "
        "that journal back (journal=PATH), or, if it is lost, `nbdjournal forget %s %s "
        "--yes` drops what was in it",
        image->name, mark->journal_path, path, mark->journal_path, image->name);
    return -EINVAL;
}

static int create_missing(const struct engine_config *config, uint64_t image_bytes,
                          const char *path)
{
    uint64_t size = config->journal_size;

    if (size == 0)
        size = journal_default_size(image_bytes);
    if (size < FORMAT_JOURNAL_MIN) {
        report_error(
            "journal-size is %" PRIu64 " bytes, but a journal has at least %" PRIu64
            ": its largest record is an eighth of it, and several are under way at once",
            size, FORMAT_JOURNAL_MIN);
        return -EINVAL;
    }
    return journal_create_file(path, size, false);
}

/* True if path is the image, by whatever name: opening it as a journal would meet our own
 * lock. */
static bool is_image(const struct storage *image, const struct stat *st)
{
    struct stat image_st;

    if (image->fd < 0 || fstat(image->fd, &image_st) < 0)
        return false;
    if (S_ISBLK(st->st_mode) && S_ISBLK(image_st.st_mode))
        return st->st_rdev == image_st.st_rdev;
    return st->st_dev == image_st.st_dev && st->st_ino == image_st.st_ino;
}

/* Opens the journal, creating it if that is possible.  A read-only image without one is served
 * alone: *jf stays empty. */
static int open_or_create_journal(const struct engine_config *config, struct storage *image,
                                  const char *path, struct journal_file *jf)
{
    struct image_mark mark;
    struct stat st;
    int r;

    if (stat(path, &st) == 0) {
        if (is_image(image, &st)) {
            report_error("journal %s is the image itself (%s): choose another journal=PATH",
                         path, image->name);
            return -EINVAL;
        }
        return journal_open(jf, path, ATTACH_SERVE);
    }
    if (errno != ENOENT) {
        r = -errno;
        report_error("can't look for the journal %s: %s", path, report_reason(-r));
        return r;
    }
    r = image_mark_read(image, &mark);
    if (r < 0)
        return r;
    if (mark.present)
        return refuse_without_journal(image, path, &mark);
    if (config->recover == ENGINE_RECOVER_ONLY_CHECK) {
        report_info("journal %s does not exist, and image %s needs none: nothing to recover",
                    path, image->name);
        return -ECANCELED;
    }
    if (image->read_only) {
        report_info("image %s is read-only and has no journal: it is served as it is",
                    image->name);
        return 0;
    }
    r = create_missing(config, image->size, path);
    return r < 0 ? r : journal_open(jf, path, ATTACH_SERVE);
}

static int add_size(void *opaque, const char *name, uint64_t bytes)
{
    uint64_t *sum = opaque;

    (void)name;
    *sum = *sum + bytes < *sum ? UINT64_MAX : *sum + bytes;
    return 0;
}

/* The same for a folder.  Whether its images are marked for another journal is seen when they are
 * opened, each on its own. */
static int open_or_create_folder_journal(struct engine *e, const struct engine_config *config,
                                         const char *path)
{
    uint64_t sum = 0;
    int r;

    if (access(path, F_OK) == 0)
        return journal_open(&e->journal, path, ATTACH_SERVE);
    if (errno != ENOENT) {
        r = -errno;
        report_error("can't look for the journal %s: %s", path, report_reason(-r));
        return r;
    }
    if (config->recover == ENGINE_RECOVER_ONLY_CHECK) {
        report_info("journal %s does not exist: nothing to recover", path);
        return -ECANCELED;
    }
    if (config->journal_path == NULL && access(config->dir_path, W_OK) != 0) {
        report_info("folder %s is read-only and has no journal: its images are served as they "
                    "are",
                    config->dir_path);
        return 0;
    }
    r = folder_visit(e->folder, add_size, &sum);
    if (r == 0)
        r = create_missing(config, sum, path);
    return r < 0 ? r : journal_open(&e->journal, path, ATTACH_SERVE);
}

/* ---- recovery ---- */

/* The newest records of a server that was killed may be in memory only (staging.h). */
static int look_for_staging(struct engine *e)
{
    const char *name = e->journal.storage->name;
    enum staging_found found;
    int r = staging_attach(&e->journal.storage, &e->journal.sb, &found);

    if (r < 0)
        return r;
    e->staging_found = found == STAGING_FOUND;
    if (found != STAGING_MISSING)
        return 0;
    if (e->config.recover != ENGINE_RECOVER_YES) {
        report_error(
            "journal %s: the server before was killed, and the memory file with its newest "
            "records is gone from /dev/shm: writes that it answered and that no client "
            "has flushed may be lost (all flushed ones are there); bring the file back, "
            "or accept that with recover=yes",
            name);
        return -EINVAL;
    }
    report_info("journal %s: answered, unflushed writes of the server before may be lost, as "
                "accepted with recover=yes",
                name);
    return 0;
}

struct progress {
    const char *name;
    uint64_t next_ns;
};

static void report_progress(void *opaque, uint64_t done, uint64_t total)
{
    struct progress *p = opaque;
    uint64_t now_ns = clock_now_ns();

    if (now_ns < p->next_ns)
        return;
    p->next_ns = now_ns + PROGRESS_NEXT_NS;
    report_info("journal %s: recovery has read %" PRIu64 " of %" PRIu64 " MiB (%u %%)", p->name,
                done >> 20, total >> 20, total == 0 ? 100 : (unsigned)(done * 100 / total));
}

static const char *age_words(uint64_t then_us, char *out, size_t size)
{
    uint64_t now_us = clock_wall_us();
    uint64_t seconds = now_us > then_us ? (now_us - then_us) / 1000000 : 0;

    if (seconds < 120)
        snprintf(out, size, "%" PRIu64 " s", seconds);
    else if (seconds < 2 * 3600)
        snprintf(out, size, "%" PRIu64 " min", seconds / 60);
    else if (seconds < 48 * 3600)
        snprintf(out, size, "%" PRIu64 " h", seconds / 3600);
    else
        snprintf(out, size, "%" PRIu64 " days", seconds / (24 * 3600));
    return out;
}

static void report_found(const struct engine *e, const struct recovery_result *found)
{
    const char *name = e->journal.storage->name;
    char age[40], torn[120] = "";

    if (found->torn)
        snprintf(torn, sizeof(torn),
                 "; an unfinished write behind them (byte %" PRIu64 ") was cut off",
                 engine_file_offset(e, found->lost_position));
    if (found->verdict == RECOVERY_EMPTY || found->records == 0) {
        if (!(e->journal.sb.state & SUPER_STATE_CLEAN))
            report_info("journal %s: recovery found no changes%s", name, torn);
        return;
    }
    report_info("journal %s: recovery found %" PRIu64 " change%s with %" PRIu64
                " bytes, up to lsn %" PRIu64 ", the last one %s old%s",
                name, found->records, found->records == 1 ? "" : "s", found->payload_bytes,
                found->cut.lsn, age_words(found->last_us, age, sizeof(age)), torn);
}

static int recover(struct engine *e) LOCK_UNCHECKED
{
    struct journal_file *jf = &e->journal;
    struct progress progress = {.next_ns = clock_now_ns() + PROGRESS_FIRST_NS};
    struct recovery_result found;
    int r;

    if (jf->storage == NULL)
        return 0;
    r = look_for_staging(e);
    if (r < 0)
        return r;
    progress.name = jf->storage->name;
    r = journal_recover(jf, e->core, UINT64_MAX, NULL, &progress, report_progress, &found);
    if (r == -ENOMEM) {
        report_error("journal %s: its %" PRIu64 " live bytes need more memory than memory=%zu "
                     "allows; give it more, or `nbdjournal replay` first",
                     jf->storage->name, jf->sb.ring_bytes, e->config.memory_bytes);
    }
    if (r < 0)
        return r;
    if (found.verdict == RECOVERY_DAMAGED) {
        journal_report_damage(jf, &found);
        return -EUCLEAN;
    }
    e->start_position = (found.cut.position + jf->sb.sector_bytes - 1) / jf->sb.sector_bytes *
                        jf->sb.sector_bytes;
    report_found(e, &found);
    if (found.records > 0)
        stats_recovered_locked(e, found.first_us);
    if (found.records > 0 && e->config.recover == ENGINE_RECOVER_NO) {
        report_error(
            "journal %s holds changes that %s do%s not have yet, and recover=no: start with "
            "recover=yes, or run `nbdjournal replay %s%s%s`",
            jf->storage->name, engine_served(e), e->folder == NULL ? "es" : "",
            jf->storage->name, e->folder == NULL ? " " : "",
            e->folder == NULL ? LIST_FIRST(&e->disks)->label : "");
        return -EINVAL;
    }
    return 0;
}

/* ---- the whole ---- */

static void report_other_size(const struct engine *e)
{
    const struct superblock *sb = &e->journal.sb;
    uint64_t size = sb->ring_start + sb->ring_bytes, wanted = e->config.journal_size;

    if (wanted != 0 && e->journal.storage != NULL &&
        wanted / sb->sector_bytes != size / sb->sector_bytes)
        report_info("journal %s exists with %" PRIu64
                    " bytes and is used as it is; journal-size "
                    "is for a new one (`nbdjournal resize` changes it)",
                    e->journal.storage->name, size);
}

/* For an image that has no journal: the core needs a description of one. */
static int describe_no_journal(struct superblock *sb)
{
    uint8_t uuid[FORMAT_UUID_BYTES];
    int r = engine_random_uuid(uuid);

    if (r == 0)
        format_super_init(sb, uuid, FORMAT_JOURNAL_MIN, clock_wall_us());
    return r;
}

static int create_parts(struct engine *e) LOCK_UNCHECKED
{
    int r = batch_create(&e->batch, &e->config.batch);

    if (r == -EINVAL)
        report_error("batch=%s, min-batch-time, max-batch-time: no such policy, or times "
                     "out of range",
                     e->config.batch.policy != NULL ? e->config.batch.policy : "");
    if (r == 0)
        r = core_create(&e->core, &e->journal.sb, e->config.memory_bytes);
    if (r < 0)
        return r;
    e->atomic_max = core_atomic_max(e->core);
    /* A checkpoint allocates nothing when it runs. */
    e->step = malloc(sizeof(*e->step));
    e->copy_buffer = malloc(CHECKPOINT_BYTES);
    return e->step == NULL || e->copy_buffer == NULL ? -ENOMEM : 0;
}

/* The one image of file=.  Taken over. */
static int attach_image(struct engine *e, struct storage *image)
{
    struct engine_disk *d;
    int r;
    LOCK_SCOPE(&e->lock);

    d = engine_disk_new_locked(e, "", image->name);
    r = d != NULL ? engine_disk_attach_locked(e, d, image) : -ENOMEM;
    if (r < 0)
        storage_close(image);
    return r;
}

/* image: NULL with dir=; taken over. */
static int build(struct engine *e, struct storage *image) LOCK_UNCHECKED
{
    struct superblock *sb = &e->journal.sb;
    int r = 0;

    if (e->journal.storage == NULL)
        r = describe_no_journal(sb);
    e->read_only = (image != NULL && image->read_only) || e->journal.storage == NULL ||
                   e->journal.storage->read_only;
    e->journal.serves_folder = e->folder != NULL;
    if (r == 0) {
        e->ring_start = sb->ring_start;
        e->ring_bytes = sb->ring_bytes;
        e->seed = format_seed(sb->uuid);
        report_other_size(e);
        r = create_parts(e);
    }
    if (r == 0 && image != NULL)
        r = attach_image(e, image);
    else
        storage_close(image);
    if (r == 0)
        r = recover(e);
    if (r < 0)
        return r;
    e->recovered_durable = e->journal.storage == NULL;
    e->announced_published = core_published_lsn(e->core);
    e->announced_space = core_space_generation(e->core);
    return 0;
}

static struct engine *engine_new(const struct engine_config *config) LOCK_UNCHECKED
{
    struct engine *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->config = *config;
    /* The caller's, maybe gone soon. */
    e->config.image_path = e->config.dir_path = e->config.journal_path = NULL;
    e->stats.begun_ns = clock_now_ns();
    LIST_INIT(&e->disks);
    TAILQ_INIT(&e->admissions);
    lock_init(&e->lock);
    condition_init(&e->published);
    condition_init(&e->gather);
    condition_init(&e->work);
    condition_init(&e->readers);
    condition_init(&e->barrier_free);
    condition_init(&e->activated);
    condition_init(&e->disks_free);
    condition_init(&e->super_free);
    condition_init(&e->claims_free);
    condition_init(&e->image_flushed);
    return e;
}

static int finish_open(struct engine *e, struct storage *image,
                       struct engine **out) LOCK_UNCHECKED
{
    int r = build(e, image);

    if (r == -ENOMEM && e->core == NULL)
        report_error("can't open %s: %s", engine_served(e), report_reason(ENOMEM));
    if (r == 0 && e->config.recover == ENGINE_RECOVER_ONLY_CHECK) {
        report_info("%s and %s journal are in order", engine_served(e),
                    e->folder == NULL ? "its" : "their");
        r = -ECANCELED;
    }
    if (r < 0) {
        engine_close(e);
        return r;
    }
    *out = e;
    return 0;
}

static int open_image(struct engine *e, const struct engine_config *config,
                      struct storage **image)
{
    char *default_path = NULL;
    const char *path = config->journal_path;
    int r = storage_open_file(image, config->image_path, "image", false, true, true);

    if (r < 0)
        return r;
    if (path == NULL && (*image)->is_block) {
        report_error(
            "image %s is a block device: say where its journal is, journal=PATH (beside "
            "it in /dev a file would be gone after a power cut)",
            (*image)->name);
        r = -EINVAL;
    } else if (path == NULL && asprintf(&default_path, "%s.journal", config->image_path) < 0) {
        default_path = NULL;
        r = -ENOMEM;
    }
    if (r == 0)
        r = open_or_create_journal(config, *image, path != NULL ? path : default_path,
                                   &e->journal);
    free(default_path);
    if (r < 0)
        storage_close(*image);
    return r;
}

static int open_folder(struct engine *e, const struct engine_config *config)
{
    char *default_path = NULL;
    const char *path = config->journal_path;
    int r = folder_open(&e->folder, config->dir_path);

    if (r == 0)
        r = asprintf(&e->served, "the images in %s", config->dir_path) < 0 ? -ENOMEM : 0;
    if (r == 0 && path == NULL &&
        asprintf(&default_path, "%s/.journal", config->dir_path) < 0) {
        default_path = NULL;
        r = -ENOMEM;
    }
    if (r == 0)
        r = open_or_create_folder_journal(e, config, path != NULL ? path : default_path);
    free(default_path);
    return r;
}

static int name_image(struct engine *e, const struct storage *image)
{
    if (asprintf(&e->served, "image %s", image->name) >= 0)
        return 0;
    e->served = NULL;
    return -ENOMEM;
}

int engine_open(struct engine **out, const struct engine_config *config)
{
    struct engine *e = engine_new(config);
    struct storage *image = NULL;
    int r;

    if (e == NULL)
        return -ENOMEM;
    if (config->dir_path != NULL) {
        r = open_folder(e, config);
    } else {
        r = open_image(e, config, &image);
        if (r == 0 && (r = name_image(e, image)) < 0)
            storage_close(image);
    }
    if (r == 0)
        return finish_open(e, image, out);
    engine_close(e);
    return r;
}

int engine_open_storages(struct engine **out, const struct engine_config *config,
                         struct storage *journal, struct storage *image)
{
    struct engine *e = engine_new(config);
    int r = e != NULL ? name_image(e, image) : -ENOMEM;

    if (r < 0)
        storage_close(journal);
    else
        r = journal_open_storage(&e->journal, journal, ATTACH_SERVE);
    if (r == 0)
        return finish_open(e, image, out);
    storage_close(image);
    engine_close(e);
    return r;
}

void engine_close(struct engine *e) LOCK_UNCHECKED
{
    struct engine_disk *d;

    if (e == NULL)
        return;
    engine_threads_end(e);
    loop_destroy(e);
    core_destroy(e->core);
    free(e->step);
    free(e->copy_buffer);
    batch_destroy(e->batch);
    if (e->journal.storage != NULL)
        journal_close(&e->journal);
    while ((d = LIST_FIRST(&e->disks)) != NULL) {
        LIST_REMOVE(d, link);
        engine_disk_free(d);
    }
    folder_close(e->folder);
    free(e->served);
    condition_destroy(&e->published);
    condition_destroy(&e->gather);
    condition_destroy(&e->work);
    condition_destroy(&e->readers);
    condition_destroy(&e->barrier_free);
    condition_destroy(&e->activated);
    condition_destroy(&e->disks_free);
    condition_destroy(&e->super_free);
    lock_destroy(&e->lock);
    free(e);
}

uint32_t engine_atomic_max(const struct engine *e)
{
    return e->atomic_max;
}
