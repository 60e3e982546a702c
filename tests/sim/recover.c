/* recover: a server that starts: from the bytes of a journal to what it shows, and (for checks)
 * all the way home.  Straight, without faults and steps: who may be interrupted is in jobs.c. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "world.h"

/* At least what a recovery may ask for at a time. */
#define RECOVER_WINDOW 65536u

static size_t ring_at(const struct world *w, uint64_t position)
{
    return w->ring_start + position % w->setup.ring_bytes;
}

/* The copy that counts.  The caller frees it (format_super_free). */
bool recover_super(const struct world *w, const uint8_t *journal, struct superblock *sb)
{
    struct superblock copy[2];
    const struct superblock *valid[2] = {NULL, NULL}, *chosen;
    bool found = false;

    for (int slot = 0; slot < 2; slot++) {
        if (format_super_decode(journal + slot * w->super_bytes, w->super_bytes, NULL,
                                &copy[slot]) == FORMAT_OK)
            valid[slot] = &copy[slot];
    }
    chosen = format_super_choose(valid[0], valid[1]);
    if (chosen != NULL) {
        *sb = *chosen;
        found = true;
    }
    for (int slot = 0; slot < 2; slot++) {
        if (valid[slot] != NULL && valid[slot] != chosen)
            format_super_free(&copy[slot]);
    }
    return found;
}

/* Is what is staged from this machine's life and this journal's last epoch?  If the journal says
 * that there is something and it is not there, answered writes are lost. */
static bool staging_attaches(struct world *w, const char *state, uint64_t *tail)
{
    const struct shm *shm = &w->shm;
    struct superblock sb;
    bool expected;

    if (!recover_super(w, w->journal.device, &sb))
        return false; /* who opens it will say so */
    format_super_free(&sb);
    *tail = sb.tail.position;
    expected = sb.staging_bytes != 0 && !(sb.state & SUPER_STATE_CLEAN) &&
               sb.staging_boot[0] == w->boot;
    if (!expected)
        return false;
    if ((!shm->exists && !shm->ignored) ||
        (shm->epoch != sb.epoch && shm->epoch != sb.epoch + 1) ||
        shm->submitted % sb.sector_bytes != 0 ||
        shm->submitted + shm->bytes / 8 < sb.tail.position ||
        shm->submitted > sb.tail.position + sb.ring_bytes) {
        world_fail(w, "P0", state, "what was staged is not there");
        return false;
    }
    return true;
}

const uint8_t *recover_after_kill(struct world *w, const char *state, uint8_t *room)
{
    uint64_t tail;

    if (w->setup.staging_bytes == 0 || !staging_attaches(w, state, &tail))
        return w->journal.device;
    memcpy(room, w->journal.device, w->journal.size);
    shm_overlay(&w->shm, tail, room + w->ring_start);
    return room;
}

static int recover_scan(struct world *w, struct recovered *found, const uint8_t *journal)
{
    struct recovery *recovery;
    uint64_t position;
    size_t count;
    int r = recovery_create(&recovery, found->core, UINT64_MAX, NULL, NULL);

    if (r < 0)
        return r;
    while (r == 0 && recovery_next(recovery, RECOVER_WINDOW, &position, &count)) {
        assert(ring_at(w, position) + count <= w->journal.size);
        r = recovery_feed(recovery, journal + ring_at(w, position), count);
    }
    recovery_finish(recovery, &found->result);
    return r;
}

/* Who opens it tells the core about images that changed, and a clean journal does not care.  One
 * that holds something knows the right size (P6: attach/match.c refuses it otherwise). */
static bool knows_images(struct world *w, const char *state, struct recovered *found)
{
    for (unsigned i = 0; i < w->setup.image_count; i++) {
        struct core_image *image = core_image_find(found->core, w->entries[i].id);
        int error;

        if (image == NULL || core_image_entry(image)->size == w->entries[i].size)
            continue;
        if (found->result.verdict != RECOVERY_EMPTY) {
            world_fail(w, "P6", state, "the journal has records and an old size of image %u",
                       i);
            return false;
        }
        core_image_add(found->core, &w->entries[i], &error);
    }
    return true;
}

bool recover_open(struct world *w, const char *state, const uint8_t *journal,
                  struct recovered *found)
{
    struct superblock sb;
    int r;

    found->core = NULL;
    if (!recover_super(w, journal, &sb)) {
        world_fail(w, "P2", state, "no superblock can be read");
        return false;
    }
    found->clean = sb.state & SUPER_STATE_CLEAN;
    found->sb_tail = sb.tail;
    r = core_create(&found->core, &sb, w->setup.map_bytes);
    format_super_free(&sb);
    if (r == 0)
        r = recover_scan(w, found, journal);
    if (r < 0) {
        world_fail(w, "P2", state, "recovery ends with %s", strerror(-r));
    } else if (found->result.verdict == RECOVERY_DAMAGED) {
        world_fail(w, "P6", state,
                   "recovery calls it damage: position %llu is broken, lsn %llu was durable, "
                   "says %llu",
                   (unsigned long long)found->result.lost_position,
                   (unsigned long long)found->result.durable_seen,
                   (unsigned long long)found->result.witness_position);
        r = -EUCLEAN;
    }
    if (r == 0 && !knows_images(w, state, found))
        r = -EUCLEAN;
    if (r < 0) {
        core_destroy(found->core);
        found->core = NULL;
    }
    return r == 0;
}

static void view_segment(const struct world *w, const struct read_segment *s,
                         const uint8_t *journal, const uint8_t *image, uint8_t *to)
{
    switch (s->source) {
    case READ_IMAGE:
        memcpy(to, image + s->offset, s->length);
        break;
    case READ_JOURNAL:
        memcpy(to, journal + ring_at(w, s->position), s->length);
        break;
    case READ_TRIMMED:
    case READ_ZERO:
        memset(to, 0, s->length);
        break;
    }
}

/* All images, as the core shows them: laid out like a state of the model.  0 or -errno. */
int recover_view(const struct world *w, struct core *core, const uint8_t *journal,
                 uint8_t *const images[], uint8_t *view)
{
    const struct model *model = &w->model;
    struct read_plan plan;

    for (unsigned i = 0; i < model->image_count; i++) {
        struct core_image *image = core_image_find(core, w->entries[i].id);
        uint8_t *to = view + model->image_at[i];
        int r;

        if (image == NULL) { /* not in the table yet: there is nothing of it in the ring */
            memcpy(to, images[i], model->image_size[i]);
            continue;
        }
        r = core_read_begin(core, image, 0, model->image_size[i], &plan);
        if (r < 0)
            return r;
        for (size_t s = 0; s < plan.count; s++)
            view_segment(w, &plan.segments[s], journal, images[i],
                         to + plan.segments[s].offset);
        core_read_end(core, &plan);
    }
    return 0;
}

/* ---- all the way home ---- */

/* The bytes that a drain works on. */
struct drain {
    struct world *w;
    struct core *core;
    uint8_t *journal;
    uint8_t *const *images;
    const struct drain_watch *watch; /* or NULL */
};

/* disk: 0 the journal, 1 and up the images. */
static void drain_write(struct drain *d, unsigned disk, size_t offset, const uint8_t *bytes,
                        size_t count)
{
    uint8_t *to = (disk == 0 ? d->journal : d->images[disk - 1]) + offset;

    if (bytes != NULL)
        memcpy(to, bytes, count);
    else
        memset(to, 0, count);
    if (d->watch != NULL)
        d->watch->wrote(d->watch->opaque, disk, offset, count);
}

static void drain_barrier(struct drain *d, unsigned disk)
{
    if (d->watch != NULL)
        d->watch->barrier(d->watch->opaque, disk);
}

static void drain_super(struct drain *d, struct super_plan *plan)
{
    drain_write(d, 0, plan->offset, plan->bytes, plan->bytes_count);
    drain_barrier(d, 0);
}

static void drain_append(struct drain *d, struct append *a)
{
    if (a->has_pad)
        drain_write(d, 0, ring_at(d->w, a->pad_position), a->pad_header, FORMAT_RECORD_BYTES);
    drain_write(d, 0, ring_at(d->w, a->record.position), a->header, FORMAT_RECORD_BYTES);
    core_append_copied(d->core, a, 0);
}

static int drain_commit(struct drain *d)
{
    struct commit commit;
    uint64_t from, to;
    int r = core_commit_begin(d->core, &commit, 0);

    if (r != 0)
        return r < 0 ? r : 0;
    if (commit.has_seal)
        drain_append(d, &commit.seal);
    while (core_commit_submit(d->core, &commit, &from, &to))
        core_submit_end(d->core, 0);
    drain_barrier(d, 0);
    core_commit_end(d->core, &commit, 0);
    return 0;
}

static void drain_copy(struct drain *d, const struct checkpoint_step *step)
{
    unsigned disk = core_image_entry(step->image)->id;

    for (size_t i = 0; i < step->count; i++) {
        const struct checkpoint_segment *s = &step->segments[i];

        drain_write(d, disk, s->offset,
                    s->source == READ_JOURNAL ? d->journal + ring_at(d->w, s->position) : NULL,
                    s->length);
    }
}

static void drain_flush(struct drain *d, struct core_image *image)
{
    uint64_t covers;

    core_image_flush_begin(image, &covers);
    drain_barrier(d, core_image_entry(image)->id);
    core_image_flush_end(d->core, image, covers, 0);
}

static int drain_checkpoint(struct drain *d, bool clean)
{
    struct checkpoint_step step; /* a watch may begin another drain */
    int r = core_checkpoint_begin(d->core, clean);

    while (r == 0) {
        r = core_checkpoint_next(d->core, &step, 0);
        if (r < 0 || step.kind == STEP_DONE)
            break;
        if (step.kind == STEP_COMMIT)
            r = drain_commit(d);
        else if (step.kind == STEP_COPY)
            drain_copy(d, &step);
        else if (step.kind == STEP_FLUSH_IMAGE)
            drain_flush(d, step.image);
        else if (step.kind == STEP_SUPER)
            drain_super(d, &step.super);
        core_checkpoint_step_end(d->core, &step, r);
    }
    return r;
}

/* As a server does, or (no EPOCH record) as nbdjournal replay. */
static int drain_all(struct drain *d, bool by_server)
{
    struct super_plan plan;
    struct append epoch;
    int r = core_activate(d->core, 0, &plan);

    if (r < 0)
        return r;
    drain_barrier(d, 0);
    drain_super(d, &plan);
    core_super_end(d->core, &plan, 0);
    if (!by_server)
        return drain_checkpoint(d, true);
    r = core_epoch_begin(d->core, &epoch, 0);
    if (r == -EAGAIN) {
        r = drain_checkpoint(d, false);
        if (r == 0)
            r = core_epoch_begin(d->core, &epoch, 0);
    }
    if (r < 0)
        return r;
    drain_append(d, &epoch);
    return drain_checkpoint(d, true);
}

/* Activates a recovered core, brings everything home and stops clean.  Afterwards the images
 * alone must hold what it showed before (P5): the caller compares them. */
bool recover_drain(struct world *w, const char *state, struct core *core, uint8_t *journal,
                   uint8_t *const images[])
{
    bool by_server = !w->setup.last_lsns && w->event % 2 == 0;

    return recover_drain_watched(w, state, core, journal, images, by_server, NULL);
}

bool recover_drain_watched(struct world *w, const char *state, struct core *core,
                           uint8_t *journal, uint8_t *const images[], bool by_server,
                           const struct drain_watch *watch)
{
    struct drain drain = {
        .w = w, .core = core, .journal = journal, .images = images, .watch = watch};
    struct recovered again;
    int r = drain_all(&drain, by_server);

    if (r < 0) {
        world_fail(w, "P5", state, "a recovered journal can't be drained: %s", strerror(-r));
        return false;
    }
    if (!recover_open(w, state, journal, &again))
        return false;
    core_destroy(again.core);
    if (!again.clean || again.result.verdict != RECOVERY_EMPTY) {
        world_fail(w, "P5", state, "a drained journal is not clean and empty");
        return false;
    }
    return true;
}
