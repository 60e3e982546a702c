/* bypass: large writes that go straight to the image, and the barriers of images.
 *
 * What may bypass the journal and when it is durable is the core's to say (core/bypass.c).  Here
 * the bytes are written, without the lock, by the thread that brought them, into the image's page
 * cache: that survives this process (P0), and it stays coherent with what the checkpoint writes
 * beside it.
 *
 * The kernel is asked to begin writing every 16 MiB, so that a flush finds little left (DESIGN 5.8).
 * Measured with 2 GiB in 1 MiB requests and a flush, against `nbdkit file` (whose last flush
 * takes half of the time): never 0.99, every 1 MiB 0.63, 4 MiB 0.86, 8 MiB 1.39, 16 MiB 1.82,
 * 32 MiB 1.28; direct I/O instead 1.03, and it is less coherent with what the page cache holds
 * beside it.
 *
 * A flush of a disk is a barrier of its image, if anything bypassed the journal since the last good
 * one, and then a commit.  Flushes of one disk share its barriers; another disk's flush knows
 * nothing of them.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine_state.h"
#include "report.h"

/* A part is looked at, and journaled or not, on its own: a small overlap shall not send all of a
 * large request through the journal.  Parts of a request are written in order. */
#define BYPASS_PART (UINT32_C(1) << 20)

#define SUBMIT_BYTES (UINT64_C(16) << 20)

/* ---- claims ---- */

void engine_claim_locked(struct engine *e, struct claim *claim, struct core_image *image,
                         uint64_t offset, uint64_t length)
{
    core_claim_begin(e->core, claim, image, offset, length);
    while (!core_claim_granted(e->core, claim)) {
        e->claim_sleepers++;
        condition_wait(&e->claims_free, &e->lock);
        e->claim_sleepers--;
    }
}

static void claim_ended_locked(struct engine *e) REQUIRES_LOCK
{
    if (e->claim_sleepers > 0)
        condition_broadcast(&e->claims_free);
}

void engine_claim_end_locked(struct engine *e, struct claim *claim)
{
    core_claim_end(e->core, claim);
    claim_ended_locked(e);
}

/* ---- a write ---- */

uint32_t engine_bypass_part(const struct engine *e, uint32_t count)
{
    uint64_t bypass = e->config.bypass_bytes;

    if (bypass == 0 || count < bypass)
        return 0;
    /* A rest that is too small for a bypass is not left over. */
    return count < BYPASS_PART + bypass ? count : BYPASS_PART;
}

static int begin(struct engine_disk *d, struct claim *claim, uint32_t count,
                 uint64_t offset) EXCLUDES_LOCK
{
    struct engine *e = d->engine;
    int r;
    LOCK_SCOPE(&e->lock);

    engine_touch_locked(e);
    engine_claim_locked(e, claim, d->image, offset, count);
    r = engine_may_change_locked(d);
    if (r == 0)
        r = core_bypass_begin(e->core, claim);
    if (r != 0)
        engine_claim_end_locked(e, claim);
    return r;
}

/* A piece of the image that shall begin to be written now. */
struct piece {
    uint64_t from, to;
};

/* Adds to what piles up.  True if it is enough: *out is all of it, from its first byte to its
 * last. */
static bool pile_up_locked(struct engine_disk *d, const struct claim *claim,
                           struct piece *out) REQUIRES_LOCK
{
    uint64_t end = claim->offset + claim->length;

    if (d->piled_bytes == 0 || claim->offset < d->piled_from)
        d->piled_from = claim->offset;
    if (d->piled_bytes == 0 || end > d->piled_to)
        d->piled_to = end;
    d->piled_bytes += claim->length;
    if (d->piled_bytes < SUBMIT_BYTES)
        return false;
    *out = (struct piece){d->piled_from, d->piled_to};
    d->piled_bytes = 0;
    return true;
}

static int end(struct engine_disk *d, struct claim *claim, int error,
               struct piece *submit) EXCLUDES_LOCK
{
    struct engine *e = d->engine;
    int r;
    LOCK_SCOPE(&e->lock);

    r = core_bypass_end(e->core, claim, error);
    claim_ended_locked(e);
    if (r != 0)
        return r;
    e->stats.bypassed++;
    e->stats.bypassed_bytes += claim->length;
    if (e->bypassed_ns == 0)
        e->bypassed_ns = clock_now_ns();
    engine_arm_timer_locked(e);
    if (!pile_up_locked(d, claim, submit))
        submit->to = submit->from = 0;
    return 0;
}

int engine_bypass_write(struct engine_disk *d, const void *bytes, uint32_t count,
                        uint64_t offset)
{
    struct piece submit;
    struct claim claim;
    int r = begin(d, &claim, count, offset);

    if (r != 0)
        return r;
    r = storage_write(d->storage, bytes, count, offset);
    /* What the image can't take the journal may, until it can: the checkpoint says so (P4). */
    r = end(d, &claim, r, &submit);
    if (r == 0 && submit.to > submit.from)
        storage_submit(d->storage, submit.from, submit.to - submit.from);
    return r;
}

/* ---- barriers ---- */

/* What is told an error of the image's writeback: a barrier, or waiting until `length` bytes at
 * `offset` are written. */
static int settle_locked(struct engine_disk *d, bool barrier, uint64_t offset,
                         uint64_t length) REQUIRES_LOCK
{
    struct engine *e = d->engine;
    bool was_lost;
    uint64_t covers;
    int r;

    while (core_image_flush_begin(d->image, &covers) == -EBUSY)
        condition_wait(&e->image_flushed, &e->lock);
    lock_release(&e->lock);
    r = barrier ? storage_barrier(d->storage) : storage_write_out(d->storage, offset, length);
    lock_acquire(&e->lock);
    e->stats.image_barriers += barrier;
    was_lost = core_image_is_lost(d->image);
    core_image_flush_end(e->core, d->image, barrier ? covers : 0, r);
    condition_broadcast(&e->image_flushed);
    if (!was_lost && core_image_is_lost(d->image))
        report_error(
            "image %s: flush failed: %s; large writes that went straight to it since the "
            "last flush may be lost; from now on every write and flush of it fails, reads "
            "go on; mend what is wrong with its disk and start again",
            d->label, strerror(-r));
    engine_announce_locked(e);
    return r;
}

int engine_image_barrier_locked(struct engine_disk *d)
{
    return settle_locked(d, true, 0, 0);
}

int engine_image_write_out(struct engine_disk *d, uint64_t offset, uint64_t length,
                           bool barrier)
{
    struct engine *e = d->engine;
    LOCK_SCOPE(&e->lock);

    return settle_locked(d, barrier, offset, length);
}

int engine_image_gone_locked(struct engine *e, struct core_image *image)
{
    uint64_t covers;

    if (core_image_flush_begin(image, &covers) == 0)
        core_image_flush_end(e->core, image, covers, 0);
    return 0;
}

int engine_image_flush_locked(struct engine_disk *d, uint64_t target)
{
    struct engine *e = d->engine;
    int r;

    while ((r = core_image_flush_check(d->image, target)) == -EAGAIN) {
        /* Whoever comes first does it for all who came until then. */
        if (core_image_flush_is_busy(d->image))
            condition_wait(&e->image_flushed, &e->lock);
        else
            engine_image_barrier_locked(d);
    }
    return r;
}

bool engine_lost_report(struct engine *e)
{
    struct engine_disk *d;
    bool any = false;
    LOCK_SCOPE(&e->lock);

    LIST_FOREACH (d, &e->disks, link) {
        if (d->image == NULL || !core_image_is_lost(d->image))
            continue;
        any = true;
        report_info("image %s is not complete: its flush failed, and large writes that went "
                    "straight to it since the one before may be lost; look after its disk, "
                    "start again and check its file system",
                    d->label);
    }
    return any;
}

/* ---- the commit interval ---- */

void engine_bypass_due_locked(struct engine *e)
{
    struct engine_disk *d;

    e->bypassed_ns = 0;
    LIST_FOREACH (d, &e->disks, link)
        d->flush_due = d->storage != NULL && core_image_flush_target(d->image) != 0;
    condition_signal(&e->work);
}

/* Such a disk is not closed meanwhile: what is not durable keeps it (core_image_is_home). */
bool engine_flush_due_locked(struct engine *e)
{
    struct engine_disk *d;

    LIST_FOREACH (d, &e->disks, link) {
        if (d->flush_due)
            break;
    }
    if (d == NULL)
        return false;
    d->flush_due = false;
    engine_image_flush_locked(d, core_image_flush_target(d->image));
    return true;
}
