/* serve_client: a client opens a disk by its export's name, and closes it.
 *
 * The disk is attached if it is not (serve_disk.c), and made writable unless it is opened for
 * reading only; the first writable one activates the engine (serve_start.c).
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine_state.h"
#include "report.h"

struct sole {
    int count;
    char name[NAME_MAX + 1];
};

static int count_image(void *opaque, const char *name, uint64_t bytes)
{
    struct sole *s = opaque;

    (void)bytes;
    s->count++;
    snprintf(s->name, sizeof(s->name), "%s", name);
    return 0;
}

/* How many images there are, one of them in *name; -errno. */
static int count_images(struct engine *e, char name[NAME_MAX + 1])
{
    struct sole sole = {.count = 0};
    int r = folder_visit(e->folder, count_image, &sole);

    memcpy(name, sole.name, sizeof(sole.name));
    return r < 0 ? r : (int)sole.count;
}

bool engine_sole_name(struct engine *e, char name[NAME_MAX + 1])
{
    name[0] = '\0';
    return e->folder == NULL || count_images(e, name) == 1;
}

int engine_visit_images(struct engine *e,
                        int (*visit)(void *opaque, const char *name, uint64_t bytes),
                        void *opaque)
{
    assert(e->folder != NULL);
    return folder_visit(e->folder, visit, opaque);
}

/* The disk's file was replaced, or is open under another name that it had: closes what can be. */
static int make_way_locked(struct engine *e, const char *name) REQUIRES_LOCK
{
    struct engine_disk *d, *next;
    uint64_t inode;

    lock_release(&e->lock);
    inode = folder_inode(e->folder, name);
    lock_acquire(&e->lock);
    for (d = LIST_FIRST(&e->disks); d != NULL; d = next) {
        bool same_name = strcmp(d->name, name) == 0;

        next = LIST_NEXT(d, link);
        if (d->storage == NULL || same_name == (d->inode == inode))
            continue;
        if (engine_disk_is_idle_locked(d)) {
            engine_disk_detach_locked(e, d);
        } else if (same_name) {
            report_error("%s was replaced by another file, and the one before is %s", d->label,
                         d->users > 0 ? "in use by a client"
                                      : "still being written: try again in a moment");
            return -EBUSY;
        } else {
            report_error("export '%s' is the same file as %s, which is in use by that name",
                         name, d->label);
            return -EBUSY;
        }
    }
    return 0;
}

/* Reported. */
static int attach_name_locked(struct engine *e, const char *name,
                              struct engine_disk **out) REQUIRES_LOCK
{
    struct engine_disk *d = engine_disk_named_locked(e, name);
    struct storage *storage = NULL;
    char label[PATH_MAX];
    bool is_new = d == NULL;
    int r;

    lock_release(&e->lock);
    r = folder_open_image(e->folder, name, &storage);
    lock_acquire(&e->lock);
    if (r < 0)
        return r;
    if (is_new) {
        folder_label(e->folder, name, label);
        d = engine_disk_new_locked(e, name, label);
    }
    r = d == NULL ? -ENOMEM : engine_disk_attach_locked(e, d, storage);
    if (r < 0) {
        storage_close(storage);
        if (is_new && d != NULL)
            engine_disk_detach_locked(e, d);
        return r;
    }
    *out = d;
    return 0;
}

static int open_locked(struct engine *e, const char *name, bool readonly,
                       struct engine_disk **out) REQUIRES_LOCK
{
    struct engine_disk *d;
    int r;

    if (e->life == ENGINE_STOPPING)
        return -ESHUTDOWN;
    if (e->folder != NULL) {
        r = make_way_locked(e, name);
        if (r < 0)
            return r;
    }
    d = engine_disk_named_locked(e, name);
    if (d == NULL || d->storage == NULL) {
        r = attach_name_locked(e, name, &d);
        if (r < 0)
            return r;
    }
    d->users++;
    r = readonly || engine_disk_read_only(d) ? 0 : engine_disk_writable_locked(d);
    if (r < 0) {
        d->users--;
        return r;
    }
    d->used_ns = clock_now_ns();
    *out = d;
    return 0;
}

int engine_disk_open(struct engine *e, const char *name, bool readonly,
                     struct engine_disk **out)
{
    char sole[NAME_MAX + 1];
    int r;

    if (e->folder != NULL && *name == '\0') {
        r = count_images(e, sole);
        if (r >= 0 && r != 1)
            report_error("%s has %d images: the client has to name one of them as its export",
                         e->folder->path, r);
        if (r != 1)
            return r < 0 ? r : -EINVAL;
        name = sole;
    }
    LOCK_SCOPE(&e->lock);
    engine_disks_take_locked(e);
    r = open_locked(e, name, readonly, out);
    engine_disks_give_locked(e);
    engine_disks_trim_locked(e);
    return r;
}

void engine_disk_close(struct engine_disk *d)
{
    struct engine *e = d->engine;
    LOCK_SCOPE(&e->lock);

    assert(d->users > 0);
    d->users--;
    d->used_ns = clock_now_ns();
    engine_disks_trim_locked(e);
}
