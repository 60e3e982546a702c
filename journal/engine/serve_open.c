/* serve_open: what happens before the first client: open, lock, compare, recover.
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
#include <sys/random.h>
#include <sys/stat.h>

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

static int create_missing(const struct engine_config *config, struct storage *image,
                          const char *path)
{
    uint64_t size = config->journal_size;

    if (size == 0)
        size = journal_default_size(image->size);
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
        report_error("journal %s: %s", path, strerror(-r));
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
    r = create_missing(config, image, path);
    return r < 0 ? r : journal_open(jf, path, ATTACH_SERVE);
}

/* ---- does it belong together ---- */

static int random_uuid(uint8_t uuid[FORMAT_UUID_BYTES])
{
    ssize_t n;

    do
        n = getrandom(uuid, FORMAT_UUID_BYTES, 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)FORMAT_UUID_BYTES) {
        report_error("no random bytes for a UUID: %s", strerror(n < 0 ? errno : EIO));
        return -EIO;
    }
    return 0;
}

static bool is_zero(const uint8_t uuid[FORMAT_UUID_BYTES])
{
    static const uint8_t zero[FORMAT_UUID_BYTES];

    return memcmp(uuid, zero, FORMAT_UUID_BYTES) == 0;
}

/* Finds the image in the journal's table, and tells what to enter there at activation. */
static int compare(struct engine *e, struct image_entry *entry)
{
    const struct journal_file *jf = &e->journal;
    const struct image_entry *known = NULL;
    struct image_mark mark;
    int r;

    r = image_identify(e->image, entry);
    if (r < 0)
        return r;
    if (jf->storage == NULL)
        return random_uuid(entry->uuid);
    r = image_mark_read(e->image, &mark);
    if (r < 0)
        return r;
    switch (
        image_compare(jf, jf->sb.state & SUPER_STATE_CLEAN, e->image, &mark, entry, &known)) {
    case MATCH_REFUSED:
        return -EINVAL;
    case MATCH_NEW:
        /* Keeps the uuid of a mark that names this journal. */
        return is_zero(entry->uuid) ? random_uuid(entry->uuid) : 0;
    case MATCH_KNOWN:
    case MATCH_CLEAN:
        memcpy(entry->uuid, known->uuid, FORMAT_UUID_BYTES);
        entry->flags = known->flags;
        break;
    }
    return 0;
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
    report_info("journal %s: recovery found %" PRIu64 " changes with %" PRIu64
                " bytes, up to lsn %" PRIu64 ", the last one %s old%s",
                name, found->records, found->payload_bytes, found->cut.lsn,
                age_words(found->last_us, age, sizeof(age)), torn);
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
    if (found.records > 0 && e->config.recover == ENGINE_RECOVER_NO) {
        report_error(
            "journal %s holds changes that image %s does not have yet, and recover=no: "
            "start with recover=yes, or run `nbdjournal replay %s %s`",
            jf->storage->name, e->image->name, jf->storage->name, e->image->name);
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
    int r = random_uuid(uuid);

    if (r == 0)
        format_super_init(sb, uuid, FORMAT_JOURNAL_MIN, clock_wall_us());
    return r;
}

static int build(struct engine *e) LOCK_UNCHECKED
{
    struct superblock *sb = &e->journal.sb;
    struct image_entry entry;
    int r, error = 0;

    if (e->journal.storage == NULL) {
        r = describe_no_journal(sb);
        if (r < 0)
            return r;
    }
    e->read_only =
        e->image->read_only || e->journal.storage == NULL || e->journal.storage->read_only;
    e->ring_start = sb->ring_start;
    e->ring_bytes = sb->ring_bytes;
    e->seed = format_seed(sb->uuid);
    report_other_size(e);
    r = compare(e, &entry);
    if (r < 0)
        return r;

    r = batch_create(&e->batch, &e->config.batch);
    if (r < 0) {
        if (r == -EINVAL)
            report_error("batch=%s, min-batch-time, max-batch-time: no such policy, or times "
                         "out of range",
                         e->config.batch.policy != NULL ? e->config.batch.policy : "");
        return r;
    }
    r = core_create(&e->core, sb, e->config.memory_bytes);
    if (r < 0)
        return r;
    e->atomic_max = core_atomic_max(e->core);
    r = recover(e);
    if (r < 0)
        return r;
    e->core_image = core_image_add(e->core, &entry, &error);
    if (e->core_image == NULL) {
        report_error("journal %s: no room for image %s: %s",
                     e->journal.storage != NULL ? e->journal.storage->name : "(none)",
                     e->image->name, strerror(-error));
        return error;
    }
    e->recovered_durable = e->journal.storage == NULL;
    e->announced_published = core_published_lsn(e->core);
    e->announced_space = core_space_generation(e->core);
    /* A checkpoint allocates nothing when it runs. */
    e->step = malloc(sizeof(*e->step));
    e->copy_buffer = malloc(CHECKPOINT_BYTES);
    return e->step == NULL || e->copy_buffer == NULL ? -ENOMEM : 0;
}

static struct engine *engine_new(const struct engine_config *config)
{
    struct engine *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->config = *config;
    e->config.image_path = e->config.journal_path = NULL; /* the caller's, maybe gone soon */
    lock_init(&e->lock);
    condition_init(&e->published);
    condition_init(&e->durable[0]);
    condition_init(&e->durable[1]);
    condition_init(&e->gather);
    condition_init(&e->work);
    condition_init(&e->readers);
    condition_init(&e->barrier_free);
    condition_init(&e->activated);
    return e;
}

static int finish_open(struct engine *e, struct engine **out) LOCK_UNCHECKED
{
    int r;

    TAILQ_INIT(&e->admissions);
    r = build(e);
    if (r == -ENOMEM && e->core == NULL)
        report_error("not enough memory to open journal and image");
    if (r == 0 && e->config.recover == ENGINE_RECOVER_ONLY_CHECK) {
        report_info("image %s and its journal are in order", e->image->name);
        r = -ECANCELED;
    }
    if (r < 0) {
        engine_close(e);
        return r;
    }
    *out = e;
    return 0;
}

int engine_open(struct engine **out, const struct engine_config *config)
{
    struct engine *e = engine_new(config);
    char *default_path = NULL;
    const char *path = config->journal_path;
    int r;

    if (e == NULL)
        return -ENOMEM;
    r = storage_open_file(&e->image, config->image_path, "image", false, true, true);
    if (r < 0)
        goto err;
    if (path == NULL && e->image->is_block) {
        report_error(
            "image %s is a block device: say where its journal is, journal=PATH (beside "
            "it in /dev a file would be gone after a power cut)",
            e->image->name);
        r = -EINVAL;
        goto err;
    }
    if (path == NULL) {
        r = -ENOMEM;
        if (asprintf(&default_path, "%s.journal", config->image_path) < 0)
            goto err;
        path = default_path;
    }
    r = open_or_create_journal(config, e->image, path, &e->journal);
    if (r < 0)
        goto err;
    free(default_path);
    return finish_open(e, out);

err:
    free(default_path);
    engine_close(e);
    return r;
}

int engine_open_storages(struct engine **out, const struct engine_config *config,
                         struct storage *journal, struct storage *image)
{
    struct engine *e = engine_new(config);
    int r;

    if (e == NULL) {
        storage_close(journal);
        storage_close(image);
        return -ENOMEM;
    }
    e->image = image;
    r = journal_open_storage(&e->journal, journal, ATTACH_SERVE);
    if (r < 0) {
        engine_close(e);
        return r;
    }
    return finish_open(e, out);
}

void engine_close(struct engine *e) LOCK_UNCHECKED
{
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
    storage_close(e->image);
    condition_destroy(&e->published);
    condition_destroy(&e->durable[0]);
    condition_destroy(&e->durable[1]);
    condition_destroy(&e->gather);
    condition_destroy(&e->work);
    condition_destroy(&e->readers);
    condition_destroy(&e->barrier_free);
    condition_destroy(&e->activated);
    lock_destroy(&e->lock);
    free(e);
}

uint64_t engine_image_size(const struct engine *e)
{
    return e->image->size;
}

bool engine_read_only(const struct engine *e)
{
    return e->read_only;
}

uint32_t engine_atomic_max(const struct engine *e)
{
    return e->atomic_max;
}

bool engine_is_rotational(const struct engine *e)
{
    return e->image->is_rotational;
}
