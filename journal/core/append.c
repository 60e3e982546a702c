/* append: admission, copying, publication of a record.
 *
 * Admission fixes the order: under the caller's lock a record gets lsn, place in the ring and
 * header.  That is all that happens under the lock; the payload was summed before and is copied
 * after it, by many threads at once.  Publication follows lsn order: a record becomes visible
 * (map) and answerable only when it and all before it are copied, so that an answered write
 * never sits behind a hole which kill -9 would leave (P0), and so that what recovery finds is a
 * prefix of the admitted order (P2).
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core_state.h"
#include "report.h"

/* Submit when this much is published and was not submitted yet.  Small enough that a flush
 * finds little left (DESIGN 5.8), large enough that a system call is nothing beside it. */
#ifndef SUBMIT_BYTES
#define SUBMIT_BYTES (1u << 20)
#endif

uint32_t core_atomic_max(const struct core *c)
{
    uint32_t max = format_atomic_max(c->sb.ring_bytes);

    return c->unsubmitted_max != 0 && c->unsubmitted_max / 4 < max ? c->unsubmitted_max / 4
                                                                   : max;
}

uint64_t core_space_generation(const struct core *c)
{
    return c->space_generation;
}

/* Bytes that may be used at the head.  Space is reused only behind the durable tail, and not
 * while a reader looks at it. */
uint64_t core_free_space(const struct core *c)
{
    const struct read_pin *pin = TAILQ_FIRST(&c->pins);
    uint64_t limit = c->tail.position;

    if (pin != NULL && pin->tail_position < limit && !PLANTED(12)) /* readers are not seen */
        limit = pin->tail_position;
    return limit + c->sb.ring_bytes - c->head;
}

/* Gives *r its place at the head and its link in the chain, and encodes it. */
void core_record_place(struct core *c, struct record *r, uint64_t span,
                       uint8_t out[FORMAT_RECORD_BYTES])
{
    r->epoch = c->epoch;
    r->durable_lsn = PLANTED(28) ? c->last_lsn /* more than is known */ : c->durable.lsn;
    r->position = c->head;
    r->chain = c->last_chain;
    r->span_bytes = span;
    format_record_encode(c->seed, r, out);
    c->last_lsn = r->lsn;
    c->last_chain = r->header_sum;
    c->head += span;
}

/* What is left of the ring behind the head, if a record of this span does not fit there; else
 * 0. */
static uint64_t pad_before(const struct core *c, uint64_t span)
{
    uint64_t left = c->sb.ring_bytes - c->head % c->sb.ring_bytes;
    return span > left ? left : 0;
}

static bool prewrite_collides(const struct core *c, uint64_t need)
{
    if (PLANTED(27)) /* zeroes are written over records */
        return false;
    return c->prewrite_count != 0 && c->head + need > c->prewrite_from &&
           c->head < c->prewrite_from + c->prewrite_count;
}

/* The head stays below this.  Staging has room for twice unsubmitted_max: as much is not
 * submitted at most, and as much before what is newest is left alone for those who read it
 * (staging.h). */
static uint64_t staging_limit(const struct core *c)
{
    const struct read_pin *pin = TAILQ_FIRST(&c->pins);
    /* planted: slots are reused though not submitted */
    uint64_t limit = PLANTED(23) ? c->head : c->staged_position;

    if (pin != NULL && pin->published_position < limit)
        limit = pin->published_position;
    return limit + c->unsubmitted_max;
}

static bool one_fails(const struct core *c)
{
    const struct core_image *image;

    TAILQ_FOREACH (image, &c->images, link) {
        if (image->failed != 0)
            return true;
    }
    return false;
}

/* Recovery must do with the same memory (P8).  It finds what is in the map, in up to twice as many
 * pieces, and what was retired while the tail was not durable behind it.  A quarter is kept for those
 * whose images can be written, when others hold all the rest. */
static bool map_is_full(const struct core *c, const struct core_image *image)
{
    size_t nodes = c->pool.used + c->pool.reserved + MAP_INSERT_NODES;
    size_t limit = c->pool.limit_nodes;

    if (PLANTED(35)) /* as if recovery found what is in use */
        return nodes > limit;
    if (c->image_count > 1 && (image->failed != 0 || !one_fails(c)))
        limit -= limit / 4;
    return c->retired_nodes + 2 * nodes > limit;
}

/* P8: what waits for a checkpoint waits, unless that can't help.  An image that can't be written
 * makes nobody else fail: what it holds is carried out of the way (checkpoint.c), and only when
 * there is nobody to do that for, or no room, its own writers learn why. */
static int wait_for_checkpoint(struct core *c, const struct core_image *image)
{
    c->space_wanted = true;
    if (PLANTED(40) && c->image_error != 0) /* everybody learns of one image's error */
        return c->image_error;
    return image->failed != 0 && (c->image_count == 1 || c->carry_failed) ? image->failed
                                                                          : -EAGAIN;
}

/* 0, or what core_append_admit returns: a checkpoint gives nodes back, if there are any.  But not those
 * of an image that can't be written: what is carried needs as many. */
static int map_check(struct core *c, const struct core_image *image)
{
    int r;

    if (!map_is_full(c, image))
        return 0;
    if (c->retired_nodes + c->pool.used + c->pool.reserved == 0)
        return -ENOMEM;
    r = wait_for_checkpoint(c, image);
    return image->failed != 0 ? image->failed : r;
}

/* Of several images one may have to be carried, and that goes from one commit to the next
 * (checkpoint.c, shorten_target): there has to be room for what lies between two of them. */
static bool uncommitted_too_long(const struct core *c)
{
    return c->image_count > 1 && c->last_lsn != c->durable.lsn &&
           c->head - c->durable.position > c->sb.ring_bytes / 16;
}

bool core_commit_due(const struct core *c)
{
    return uncommitted_too_long(c) && !c->commit_in_flight && c->error == 0;
}

/* For the last record with its pad, and a seal. */
#define LSNS_KEPT 4

static int lsns_used_up(void)
{
    report_error("the journal has used up its sequence numbers: drain it "
                 "(nbdjournal replay) and create a new one");
    return -EIO;
}

/* Space, map nodes, and nothing else in the way?  0, or what core_append_admit returns. */
static int admit_check(struct core *c, const struct core_image *image, uint64_t need,
                       uint64_t reserve)
{
    int r;

    if (c->error != 0 || c->life == CORE_STOPPED)
        return -EIO; /* P4 */
    if (c->last_lsn >= FORMAT_LSN_MAX - LSNS_KEPT)
        return lsns_used_up();
    if (need + reserve > core_free_space(c))
        return wait_for_checkpoint(c, image);
    if (prewrite_collides(c, need))
        return -EAGAIN;
    if (c->unsubmitted_max != 0 && c->head + need + c->sb.sector_bytes > staging_limit(c))
        return -EAGAIN; /* whoever publishes submits, so this ends without our help */
    r = map_reserve(&c->pool);
    if (r < 0 && c->pool.used > 0) /* a checkpoint gives nodes back */
        return wait_for_checkpoint(c, image);
    return r;
}

/* There is room: lsn, place, link in the chain. */
static void admit(struct core *c, struct append *a, struct core_image *image,
                  const struct record *change, uint64_t pad)
{
    a->has_pad = pad != 0 && !PLANTED(6); /* a record goes over the ring's end */
    if (a->has_pad) {
        struct record filler = {
            .kind = RECORD_PAD, .lsn = c->last_lsn + 1, .time_us = change->time_us};
        a->pad_position = c->head;
        core_record_place(c, &filler, pad, a->pad_header);
    }
    a->record = *change;
    a->record.lsn = c->last_lsn + 1;
    core_record_place(c, &a->record, format_span(change->payload_bytes), a->header);
    a->image = image;
    a->state = APPEND_ADMITTED;
    TAILQ_INSERT_TAIL(&c->inflight, a, link);
}

int core_append_admit(struct core *c, struct append *a, struct core_image *image,
                      enum record_kind kind, uint16_t flags, uint64_t offset, uint64_t length,
                      uint64_t payload_sum, uint64_t now_us)
{
    struct record change = {
        .kind = kind,
        .flags = flags,
        .image_id = image->entry.id,
        .offset = offset,
        .length = length,
        .time_us = now_us,
        .payload_sum = payload_sum,
        .payload_bytes = kind == RECORD_WRITE ? length : 0,
    };
    uint64_t span = format_span(change.payload_bytes);
    uint64_t pad = pad_before(c, span);
    int r;

    assert(c->life == CORE_RUNNING || c->life == CORE_STOPPED);
    assert(length > 0 && offset + length <= image->entry.size);
    assert(kind != RECORD_WRITE || length <= core_atomic_max(c));

    if (image->lost != 0)
        return -EIO; /* P4 */
    if (core_claimed(c, image, offset, length, a->claim))
        return -EBUSY;
    if (image->full)
        return image->failed;
    /* Not for core_append_again: it replaces as much, and the checkpoint would wait for itself. */
    r = c->error != 0 ? -EIO : map_check(c, image);
    if (r == 0 && (uncommitted_too_long(c) || pace_holds(c, pad + span)))
        r = -EAGAIN;
    if (r == 0)
        r = admit_check(c, image, pad + span, core_reserve(c) + core_carry_reserve(c));
    if (r == 0)
        admit(c, a, image, &change, pad);
    return r;
}

/* For an image that can't be written (core_carry_begin).  -EAGAIN: not now.  -ENOSPC: no room, and
 * none to come, since the tail waits for this. */
int core_append_again(struct core *c, struct append *a, struct core_image *image,
                      enum record_kind kind, uint64_t offset, uint64_t length,
                      uint64_t payload_sum, uint64_t now_us)
{
    struct record change = {
        .kind = kind,
        .image_id = image->entry.id,
        .offset = offset,
        .length = length,
        .time_us = now_us,
        .payload_sum = payload_sum,
        .payload_bytes = kind == RECORD_WRITE ? length : 0,
    };
    uint64_t span = format_span(change.payload_bytes);
    uint64_t pad = pad_before(c, span);
    int r;

    if (c->head + pad + span + core_reserve(c) > c->tail.position + c->sb.ring_bytes ||
        map_reserve(&c->pool) < 0)
        return -ENOSPC;
    map_unreserve(&c->pool);
    r = admit_check(c, image, pad + span, core_reserve(c));
    if (r == 0)
        admit(c, a, image, &change, pad);
    return r;
}

/* Beyond every lsn that a record behind the cut may have used (format.h).  False: there is none. */
static bool epoch_lsn(const struct core *c, uint64_t *lsn)
{
    uint64_t epochs = c->epoch - c->durable.epoch + PLANTED(3), jump;

    return !__builtin_mul_overflow(epochs, 1 + c->sb.ring_bytes / FORMAT_UNIT, &jump) &&
           !__builtin_add_overflow(c->last_lsn, jump, lsn) && *lsn < FORMAT_LSN_MAX - LSNS_KEPT;
}

int core_epoch_begin(struct core *c, struct append *a, uint64_t now_us)
{
    uint64_t lsn;

    assert(c->life == CORE_ACTIVATED && TAILQ_EMPTY(&c->inflight));
    assert(c->head % c->sb.sector_bytes == 0);
    if (c->error != 0)
        return -EIO;
    if (2 * (uint64_t)c->sb.sector_bytes > core_free_space(c))
        return -EAGAIN;
    if (!epoch_lsn(c, &lsn))
        return lsns_used_up();
    *a = (struct append){.state = APPEND_ADMITTED};
    a->record = (struct record){
        .kind = RECORD_EPOCH, .lsn = lsn, .cut_lsn = c->last_lsn, .time_us = now_us};
    if (PLANTED(26)) /* lsns of the epoch that was lost are given again */
        a->record.lsn = c->last_lsn + 1;
    core_record_place(c, &a->record, format_span(0), a->header);
    c->life = CORE_RUNNING;
    TAILQ_INSERT_TAIL(&c->inflight, a, link);
    return 0;
}

/* Makes a copied record visible.  It can't fail: its map nodes were reserved at admission. */
static void publish(struct core *c, struct append *a)
{
    struct record *r = &a->record;

    if (a->image != NULL) {
        uint64_t position = r->kind == RECORD_WRITE  ? r->position + FORMAT_RECORD_BYTES
                            : r->kind == RECORD_TRIM ? MAP_TRIM
                                                     : MAP_ZERO;
        uint64_t length = r->length;

        if (PLANTED(37) && r->kind == RECORD_TRIM && /* rounded up to a sector */
            r->offset + round_up(length, 512) <= a->image->entry.size)
            length = round_up(length, 512);
        map_insert(&a->image->map, r->offset, length, r->lsn, position);
        a->image->published_lsn = r->lsn;
    }
    c->published_lsn = r->lsn;
    c->published_position = r->position + r->span_bytes;
    a->state = APPEND_PUBLISHED;
}

/* P0: answers wait for APPEND_PUBLISHED, and a record is published only behind all that were
 * admitted before it. */
void core_append_copied(struct core *c, struct append *a, int error)
{
    assert(a->state == APPEND_ADMITTED);
    a->state = APPEND_COPIED;
    if (PLANTED(38)) /* it could not be written, and is taken as written */
        error = 0;
    if (error != 0 || c->error != 0) {
        /* What was to stand here never will: nothing behind it can be found by recovery. */
        core_abort(c, error != 0 ? error : c->error);
        assert(a->state == APPEND_FAILED);
        return;
    }
    if (PLANTED(7)) { /* visible though an earlier one is not copied */
        TAILQ_REMOVE(&c->inflight, a, link);
        publish(c, a);
        return;
    }
    while ((a = TAILQ_FIRST(&c->inflight)) != NULL && a->state == APPEND_COPIED) {
        TAILQ_REMOVE(&c->inflight, a, link);
        publish(c, a);
    }
}

/* Beyond the gap, if it comes next: it is not written. */
void core_submit_skip(struct core *c)
{
    /* planted: the sector before it is passed over as well */
    uint64_t from = PLANTED(42) ? c->gap_from - c->sb.sector_bytes : c->gap_from;

    if (c->gap_from == c->gap_to || c->submitted_position < from || c->submit_in_flight ||
        c->submitted_position > c->gap_from)
        return;
    c->submitted_position = c->staged_position = c->gap_to;
    c->gap_from = c->gap_to;
    c->space_generation++; /* room in staging */
}

/* From what was submitted last up to `upto`, or the gap or the ring's end if one comes first. */
void core_submit_range(struct core *c, uint64_t upto, uint64_t *from, uint64_t *to)
{
    uint64_t ring_end = (c->submitted_position / c->sb.ring_bytes + 1) * c->sb.ring_bytes;

    *from = c->submitted_position;
    *to = upto < ring_end ? upto : ring_end;
    if (c->gap_from != c->gap_to && c->gap_from < *to)
        *to = c->gap_from;
    c->submitted_position = *to;
}

bool core_submit_begin(struct core *c, uint64_t *from, uint64_t *to)
{
    uint64_t sector = c->sb.sector_bytes, enough = SUBMIT_BYTES;

    core_submit_skip(c);
    if (c->unsubmitted_max != 0 && c->unsubmitted_max / 4 < enough)
        enough = c->unsubmitted_max / 4;
    if (c->error != 0 || c->submit_in_flight ||
        c->published_position < c->submitted_position + enough)
        return false;
    /* Whole sectors only: the last one is still being filled. */
    core_submit_range(c, c->published_position / sector * sector, from, to);
    c->submit_in_flight = true;
    return true;
}

void core_submit_end(struct core *c, int error)
{
    assert(c->submit_in_flight);
    c->submit_in_flight = false;
    if (error != 0 && !PLANTED(39)) { /* the barrier will tell, it was thought */
        core_abort(c, error);
        return;
    }
    c->staged_position = c->submitted_position;
    c->space_generation++; /* room in staging */
    core_submit_skip(c);
}

/* ---- the ring's first lap ---- */

/* The ring is allocated at creation, but only its first part is written then: a start must not
 * wait for gigabytes.  The rest is written before the head comes there, so that no commit has
 * to convert unwritten extents (fdatasync would commit the file system's metadata: 390 us
 * against 141). */
bool core_prewrite_begin(struct core *c, uint64_t bytes_max, uint64_t *from, uint64_t *count)
{
    /* Not right in front of the head: admission must stay out of the piece. */
    uint64_t distance = c->sb.ring_bytes / 8 < (4u << 20) ? c->sb.ring_bytes / 8 : 4u << 20;
    uint64_t start = round_up(c->head + distance, c->sb.sector_bytes);

    if (c->error != 0 || c->life != CORE_RUNNING || c->prewrite_count != 0 ||
        c->prewrite_failed)
        return false;
    if (start < c->prewritten)
        start = c->prewritten;
    if (start >= c->sb.ring_bytes) {
        c->prewritten = c->sb.ring_bytes;
        return false;
    }
    c->prewrite_from = start;
    c->prewrite_count = c->sb.ring_bytes - start;
    if (c->prewrite_count > bytes_max)
        c->prewrite_count = bytes_max;
    *from = c->prewrite_from;
    *count = c->prewrite_count;
    return true;
}

void core_prewrite_end(struct core *c, int error)
{
    /* An error only ends this: appends will show whether the journal can be written. */
    if (error != 0)
        c->prewrite_failed = true;
    else
        c->prewritten = c->prewrite_from + c->prewrite_count;
    c->prewrite_count = 0;
    c->space_generation++;
}
