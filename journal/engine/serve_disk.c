/* serve_disk: the images, from the first use to the last.  What a client opens: serve_client.c.
 *
 * file= is the case of one disk, which is attached at the start and stays; with dir= a disk is
 * attached when a client or the checkpoint needs it.
 *
 *   attach    open, lock, compare; the core knows it.  Nothing is modified: `nbdkit -r`
 *   writable  its mark is durable, opening; then the superblock with its entry; then the mark
 *             that is complete; then its first record (attach.h, "Order").  The first writable
 *             disk of all does that with the engine's activation (serve_start.c)
 *   detach    when nobody uses it, nothing waits for it, and more than ENGINE_DISKS_IDLE are in
 *             this state: its descriptor and lock go, its mark and its entry stay
 *
 * All of it is one thread's work at a time (engine_disks_take_locked): openings are rare.  The
 * same thread may take it again, since activation may have to run a checkpoint.  Who has it
 * waits for no checkpoint of another thread, which might wait for it.
 *
 * Descriptors (P8): one for each disk that a client has open, ENGINE_DISKS_IDLE more, and, while
 * a checkpoint runs, one for each image of the journal's table with data; the table is bounded.
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

/* A client that comes back finds its disk open; more descriptors are not worth it. */
#define ENGINE_DISKS_IDLE 16

void engine_disks_take_locked(struct engine *e)
{
    pthread_t self = pthread_self();

    while (e->disks_depth > 0 && !pthread_equal(e->disks_owner, self))
        condition_wait(&e->disks_free, &e->lock);
    e->disks_owner = self;
    e->disks_depth++;
}

void engine_disks_give_locked(struct engine *e)
{
    assert(e->disks_depth > 0);
    e->disks_depth--;
    if (e->disks_depth == 0)
        condition_broadcast(&e->disks_free);
}

/* ---- attach ---- */

int engine_random_uuid(uint8_t uuid[FORMAT_UUID_BYTES])
{
    ssize_t n;

    do
        n = getrandom(uuid, FORMAT_UUID_BYTES, 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)FORMAT_UUID_BYTES) {
        report_error(
            "the kernel gives no random bytes for a UUID: %s; is getrandom(2) forbidden here "
            "(seccomp)?",
            strerror(n < 0 ? errno : EIO));
        return -EIO;
    }
    return 0;
}

static bool is_zero(const uint8_t uuid[FORMAT_UUID_BYTES])
{
    static const uint8_t zero[FORMAT_UUID_BYTES];

    return memcmp(uuid, zero, FORMAT_UUID_BYTES) == 0;
}

/* The journal as it is now, for image_compare: the table and the epoch may have changed since it
 * was read. */
static int journal_now_locked(struct engine *e, struct journal_file *jf) REQUIRES_LOCK
{
    struct core_stats stats;

    *jf = e->journal;
    jf->sb.image_count = 0;
    jf->sb.images = calloc(format_images_max(&jf->sb), sizeof(*jf->sb.images));
    if (jf->sb.images == NULL)
        return -ENOMEM;
    for (struct core_image *i = core_image_next(e->core, NULL); i != NULL;
         i = core_image_next(e->core, i))
        jf->sb.images[jf->sb.image_count++] = *core_image_entry(i);
    core_stats_get(e->core, &stats);
    jf->sb.epoch = stats.epoch;
    if (e->life != ENGINE_INERT || e->epoch_superblock)
        jf->sb.state &= ~SUPER_STATE_CLEAN;
    return 0;
}

/* The file's own name in a path. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* A file that was deleted, or renamed, and another one has its name now.  When all of the old
 * one's data went home before, the journal need not remember it. */
static void forget_namesake_locked(struct engine *e,
                                   const struct image_entry *now) REQUIRES_LOCK
{
    struct core_image *image, *next;
    struct engine_disk *d;

    for (image = core_image_next(e->core, NULL); image != NULL; image = next) {
        const struct image_entry *old = core_image_entry(image);

        next = core_image_next(e->core, image);
        if (old->kind != IMAGE_FILE || old->inode == now->inode ||
            memcmp(old->uuid, now->uuid, FORMAT_UUID_BYTES) == 0 ||
            strcmp(base_name(old->name), base_name(now->name)) != 0 || e->checkpoint_running ||
            !core_image_is_home(e->core, image))
            continue;
        LIST_FOREACH (d, &e->disks, link) {
            if (d->image == image)
                break;
        }
        if (d == NULL)
            core_image_drop(e->core, image);
    }
}

/* An entry that is not pending has no record in the ring: it is of an image that was only read, or
 * not opened since the last clean stop.  Its place is free. */
static struct core_image *reuse_locked(struct engine *e,
                                       const struct image_entry *entry) REQUIRES_LOCK
{
    struct core_image *image = NULL;
    struct engine_disk *d;

    while ((image = core_image_next(e->core, image)) != NULL) {
        LIST_FOREACH (d, &e->disks, link) {
            if (d->image == image)
                break;
        }
        if (d == NULL && core_image_reuse(e->core, image, entry))
            return image;
    }
    return NULL;
}

static int compare_locked(struct engine *e, struct storage *storage,
                          struct image_entry *entry) REQUIRES_LOCK
{
    const struct image_entry *known = NULL;
    struct journal_file now;
    struct image_mark mark;
    int r = journal_now_locked(e, &now);

    if (r < 0)
        return r;
    lock_release(&e->lock);
    /* What a server that died wrote straight to it: as the disk has it (core/bypass.c). */
    if (!(now.sb.state & SUPER_STATE_CLEAN))
        storage_forget_clean(storage);
    r = image_mark_read(storage, &mark);
    if (r == 0) {
        switch (image_compare(&now, now.sb.state & SUPER_STATE_CLEAN, storage, &mark, entry,
                              &known)) {
        case MATCH_REFUSED:
            r = -EINVAL;
            break;
        case MATCH_NEW:
            /* Keeps the uuid of a mark that names this journal. */
            r = is_zero(entry->uuid) ? engine_random_uuid(entry->uuid) : 0;
            break;
        case MATCH_KNOWN:
        case MATCH_CLEAN:
            memcpy(entry->uuid, known->uuid, FORMAT_UUID_BYTES);
            entry->flags = known->flags;
            entry->mark_epoch = known->mark_epoch;
            break;
        }
    }
    free(now.sb.images);
    lock_acquire(&e->lock);
    return r;
}

int engine_disk_attach_locked(struct engine *e, struct engine_disk *d, struct storage *storage)
{
    struct image_entry entry;
    struct core_image *image;
    struct engine_disk *other;
    int r, error = 0;

    r = image_identify(storage, &entry);
    if (r < 0)
        return r;
    if (e->folder != NULL)
        forget_namesake_locked(e, &entry);
    if (e->journal.storage != NULL)
        r = compare_locked(e, storage, &entry);
    else
        r = engine_random_uuid(entry.uuid);
    if (r < 0)
        return r;
    image = core_image_add(e->core, &entry, &error);
    if (image == NULL && error == -ENOSPC && e->folder != NULL)
        image = reuse_locked(e, &entry);
    if (image == NULL) {
        report_error("journal %s: no room for image %s: %s%s",
                     e->journal.storage != NULL ? e->journal.storage->name : "(none)",
                     storage->name, strerror(-error),
                     error == -ENOSPC ? "; its table of images is full until a clean stop"
                                      : "");
        return error;
    }
    /* A file that the checkpoint looked for under its old name. */
    LIST_FOREACH (other, &e->disks, link) {
        if (other != d && other->image == image)
            other->image = NULL;
    }
    d->image = image;
    d->storage = storage;
    d->inode = entry.inode;
    d->refused_inode = 0;
    return 0;
}

/* ---- the list ---- */

struct engine_disk *engine_disk_new_locked(struct engine *e, const char *name,
                                           const char *label)
{
    struct engine_disk *d = calloc(1, sizeof(*d));

    if (d == NULL || (d->name = strdup(name)) == NULL || (d->label = strdup(label)) == NULL) {
        if (d != NULL)
            free(d->name);
        free(d);
        return NULL;
    }
    d->engine = e;
    LIST_INSERT_HEAD(&e->disks, d, link);
    return d;
}

void engine_disk_free(struct engine_disk *d)
{
    storage_close(d->storage);
    free(d->name);
    free(d->label);
    free(d);
}

/* Drops the lock meanwhile; the list is still ours alone. */
void engine_disk_detach_locked(struct engine *e, struct engine_disk *d)
{
    assert(e->disks_depth > 0);
    LIST_REMOVE(d, link);
    stats_disk_closed_locked(d);
    lock_release(&e->lock);
    engine_disk_free(d);
    lock_acquire(&e->lock);
}

struct engine_disk *engine_disk_named_locked(struct engine *e, const char *name)
{
    struct engine_disk *d, *found = NULL;

    LIST_FOREACH (d, &e->disks, link) {
        if ((e->folder == NULL || strcmp(d->name, name) == 0) &&
            (found == NULL || d->storage != NULL))
            found = d;
    }
    return found;
}

/* Nobody uses it and nothing waits for it: it may be closed. */
bool engine_disk_is_idle_locked(const struct engine_disk *d)
{
    const struct engine *e = d->engine;

    return e->folder != NULL && d->users == 0 && !e->checkpoint_running &&
           (d->image == NULL || core_image_is_home(e->core, d->image));
}

void engine_disks_trim_locked(struct engine *e)
{
    struct engine_disk *d, *oldest;
    unsigned idle;

    /* The stop looks at all of them, and all are closed soon. */
    if (e->folder == NULL || e->disks_depth > 0 || e->life == ENGINE_STOPPING)
        return;
    engine_disks_take_locked(e);
    do {
        idle = 0;
        oldest = NULL;
        LIST_FOREACH (d, &e->disks, link) {
            if (!engine_disk_is_idle_locked(d))
                continue;
            idle++;
            if (oldest == NULL || d->used_ns < oldest->used_ns)
                oldest = d;
        }
        if (idle > ENGINE_DISKS_IDLE)
            engine_disk_detach_locked(e, oldest);
    } while (idle > ENGINE_DISKS_IDLE);
    engine_disks_give_locked(e);
}

uint64_t engine_disk_size(const struct engine_disk *d)
{
    return d->storage->size;
}

bool engine_disk_read_only(const struct engine_disk *d)
{
    return d->engine->read_only || d->storage->read_only;
}

int engine_may_change_locked(const struct engine_disk *d)
{
    const struct engine *e = d->engine;

    if (e->life != ENGINE_ACTIVE)
        return e->life == ENGINE_STOPPING ? -ESHUTDOWN : -EROFS;
    return d->writable ? 0 : -EROFS;
}

bool engine_disk_is_rotational(const struct engine_disk *d)
{
    return d->storage->is_rotational;
}

/* ---- opening for the checkpoint ---- */

static struct engine_disk *find_image_locked(struct engine *e,
                                             const struct core_image *image) REQUIRES_LOCK
{
    struct engine_disk *d;

    LIST_FOREACH (d, &e->disks, link) {
        if (d->image == image)
            return d;
    }
    return NULL;
}

/* One that recovery found, or that was closed: looked for in the folder, and compared.  A file
 * that was refused is not looked at again, so that it is said once. */
static int reopen_locked(struct engine *e, struct engine_disk *d) REQUIRES_LOCK
{
    struct image_entry entry = *core_image_entry(d->image);
    const struct core_image *image = d->image;
    struct storage *storage = NULL;
    char name[NAME_MAX + 1], *renamed;
    struct stat st;
    int r;

    if (e->folder == NULL)
        return -ENOENT;
    lock_release(&e->lock);
    r = folder_find(e->folder, &entry, name);
    if (r == 0 && entry.inode == d->refused_inode)
        r = -EBUSY;
    if (r == 0)
        r = folder_open_image(e->folder, name, &storage);
    if (r == 0 && fstat(storage->fd, &st) == 0 && st.st_ino != entry.inode)
        r = -ENOENT; /* replaced this moment */
    lock_acquire(&e->lock);
    if (r == 0) {
        r = engine_disk_attach_locked(e, d, storage);
        if (r == 0 && strcmp(d->name, name) != 0 && (renamed = strdup(name)) != NULL) {
            free(d->name);
            d->name = renamed;
        }
        if (r == 0 && d->image != image) /* bears the mark of another image */
            r = -ENOENT;
    }
    if (r < 0 && r != -ENOENT)
        d->refused_inode = entry.inode;
    if (r < 0 && storage != NULL && d->storage == NULL)
        storage_close(storage);
    return r;
}

int engine_disk_of_image_locked(struct engine *e, struct core_image *image,
                                struct engine_disk **out)
{
    const char *path = core_image_entry(image)->name;
    struct engine_disk *d = find_image_locked(e, image);
    char label[PATH_MAX];
    int r = 0;

    *out = d;
    if (d != NULL && d->storage != NULL)
        return 0;
    engine_disks_take_locked(e);
    d = find_image_locked(e, image);
    if (d == NULL) {
        if (e->folder != NULL)
            folder_label(e->folder, base_name(path), label);
        else
            snprintf(label, sizeof(label), "%s", path);
        d = engine_disk_new_locked(e, base_name(path), label);
    }
    *out = d;
    if (d == NULL) {
        r = -ENOMEM;
    } else {
        d->image = image;
        if (d->storage == NULL)
            r = reopen_locked(e, d);
    }
    engine_disks_give_locked(e);
    return r;
}
