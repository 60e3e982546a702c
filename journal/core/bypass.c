/* bypass: large writes that go straight to the image (DESIGN 5.7), and what a flush owes them.
 *
 * A bypassing write has no record.  Nothing in the ring may then say anything about its range:
 * recovery would replay it over the newer bytes.  So it is done only if no record from the
 * *durable* tail to the head overlaps it:
 *
 *   admitted, not published    in the queue of appends
 *   published, not home        in the map, which covers every byte of every such record: what
 *                              replaces a version covers its range
 *   home, still behind tail    no longer in the map: an image whose versions were retired up to
 *                              an lsn beyond the durable tail takes no bypass until the tail is
 *                              durable, in both superblocks (that is a moment): if the newest
 *                              one rots, the other one's tail is where recovery begins
 *
 * else it is journaled.  The other way round, what overlaps a bypassing write that is under way
 * waits for its end: a record that was admitted meanwhile could go home before it, be passed by
 * the tail, and be overwritten by the older write.  So ranges are claimed, in the order of
 * arrival: who overlaps somebody ahead waits.  Claims wait for claims ahead of them, and those
 * for the disk or for space in the ring, which a checkpoint gives without any claim: no circle.
 *
 * The checkpoint needs no claim: where a bypassing write is under way there is no version to copy.
 * Readers neither: their bytes are in the image before the answer, as always.
 *
 * Durable is what a barrier of the image covers that began after the write had ended (P1).  One
 * barrier of an image at a time, the checkpoint's too: the kernel tells only one of those who wait
 * of a failed writeback.  When a barrier fails while there is a bypassing write that no earlier one
 * covered, its bytes may be gone, and there is no record to write them again from: the disk is
 * *lost*: its changes and flushes fail from then on (P4), reads and other disks go on.
 *
 * After an unclean end an image that may have been written so (its entry says that) counts as
 * having one such write: the dead server answered it, and the first flush of this one must make it
 * durable.
 */
#include <assert.h>
#include <errno.h>

#include "core_state.h"

static bool overlap(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length)
{
    return a < b + b_length && b < a + a_length;
}

/* ---- claims ---- */

void core_claim_begin(struct core *c, struct claim *claim, struct core_image *image,
                      uint64_t offset, uint64_t length)
{
    *claim = (struct claim){.image = image, .offset = offset, .length = length};
    TAILQ_INSERT_TAIL(&c->claims, claim, link);
}

bool core_claimed(const struct core *c, const struct core_image *image, uint64_t offset,
                  uint64_t length, const struct claim *own)
{
    const struct claim *other;

    if (PLANTED(57)) /* what is under way is not waited for */
        return false;
    TAILQ_FOREACH (other, &c->claims, link) {
        if (other == own)
            break;
        if (other->image == image && overlap(other->offset, other->length, offset, length))
            return true;
    }
    return false;
}

bool core_claim_granted(const struct core *c, const struct claim *claim)
{
    return !core_claimed(c, claim->image, claim->offset, claim->length, claim);
}

void core_claim_end(struct core *c, struct claim *claim)
{
    TAILQ_REMOVE(&c->claims, claim, link);
}

/* ---- bypassing writes ---- */

static bool overlaps_inflight(const struct core *c, const struct claim *claim)
{
    const struct append *a;

    TAILQ_FOREACH (a, &c->inflight, link) {
        if (a->image == claim->image &&
            overlap(a->record.offset, a->record.length, claim->offset, claim->length))
            return true;
    }
    return false;
}

/* Does any record between the durable tail and the head say something about this range? */
static bool is_recorded(const struct core *c, const struct claim *claim)
{
    const struct version *v = map_find(&claim->image->map, claim->offset);

    if (PLANTED(50)) /* never looked */
        return false;
    if (claim->image->retired_lsn > c->older_tail_lsn &&
        !PLANTED(51)) /* what is home is forgotten though the tail is not durable */
        return true;
    if (v != NULL && v->offset < claim->offset + claim->length)
        return true;
    return !PLANTED(52) && overlaps_inflight(c, claim); /* only what is published counts */
}

int core_bypass_begin(struct core *c, struct claim *claim)
{
    assert(c->life == CORE_RUNNING || c->life == CORE_STOPPED);
    assert(claim->length > 0 && claim->offset + claim->length <= claim->image->entry.size);
    assert(core_claim_granted(c, claim));
    if (c->error != 0 || c->life == CORE_STOPPED || claim->image->lost != 0)
        return -EIO; /* P4 */
    if (is_recorded(c, claim)) {
        c->stats.bypass_journaled++;
        return 1;
    }
    claim->image->bypassing++;
    return 0;
}

/* P0: the bytes are in the image's page cache, or further.  If it failed a part of them may be: the
 * record that now has to take all of them will cover it. */
int core_bypass_end(struct core *c, struct claim *claim, int error)
{
    struct core_image *image = claim->image;

    assert(image->bypassing > 0);
    image->bypassing--;
    core_claim_end(c, claim);
    if (image->lost != 0)
        return -EIO;
    if (error != 0) {
        c->stats.bypass_journaled++;
        return 1;
    }
    image->bypass_ended++;
    c->stats.bypass_writes++;
    c->stats.bypass_bytes += claim->length;
    return 0;
}

/* ---- making them durable ---- */

uint64_t core_image_flush_target(const struct core_image *image)
{
    if (image->lost != 0)
        return UINT64_MAX;
    if (PLANTED(53)) /* a flush is a commit and nothing else */
        return 0;
    return image->bypass_ended > image->bypass_durable ? image->bypass_ended : 0;
}

int core_image_flush_check(const struct core_image *image, uint64_t target)
{
    if (image->bypass_durable >= target)
        return 0;
    return image->lost != 0 ? -EIO : -EAGAIN;
}

int core_image_flush_begin(struct core_image *image, uint64_t *covers)
{
    if (image->flushing && !PLANTED(63)) /* two at a time */
        return -EBUSY;
    image->flushing = true;
    *covers = image->bypass_ended;
    return 0;
}

bool core_image_flush_is_busy(const struct core_image *image)
{
    return image->flushing;
}

/* What a failed barrier may have been about: see above. */
static bool has_undurable(const struct core_image *image)
{
    return image->bypass_ended > image->bypass_durable ||
           (image->bypassing > 0 && !PLANTED(62)); /* only those that have ended */
}

void core_image_flush_end(struct core *c, struct core_image *image, uint64_t covers, int error)
{
    enum checkpoint_phase phase = c->checkpoint.phase;
    struct core_image *other;

    image->flushing = false;
    if (error == 0) {
        if (PLANTED(54)) /* also what was written while it was under way */
            covers = image->bypass_ended;
        /* Not after one that failed: what that was about is gone, and who waits for it must learn. */
        if (covers > image->bypass_durable && (image->lost == 0 || PLANTED(64)))
            image->bypass_durable = covers;
        return;
    }
    if (has_undurable(image) && !PLANTED(55)) /* the next one is believed */
        image->lost = error;
    TAILQ_FOREACH (other, &c->images, link) {
        if (PLANTED(56)) /* one disk takes all others along */
            other->lost = error;
    }
    /* The kernel has told it now, and will not tell the checkpoint's own barrier. */
    if (image->copied && phase >= CHECKPOINT_COPY && phase <= CHECKPOINT_FLUSH &&
        !PLANTED(59)) {
        image->skip = true;
        image->failed = error;
    }
    core_space_changed(c); /* whoever waits for space to write to it learns why */
}

bool core_image_is_lost(const struct core_image *image)
{
    return image->lost != 0;
}

bool core_image_has_undurable(const struct core_image *image)
{
    return image->lost != 0 || has_undurable(image);
}
