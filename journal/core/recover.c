/* recover: finding the valid records after a crash and making them visible again.
 *
 * From the tail along the chain until no next record proves itself (format.h says what that
 * means). Nothing is copied and nothing is written: the map is rebuilt, and the image is
 * brought up to date by the normal checkpoint later.  So recovery takes one sequential read of
 * the ring, and recovery of a recovery is the same code on the same bytes.
 *
 * Torn or damaged?  With one barrier per commit and early submission, valid records behind a
 * broken one are what a normal power cut leaves: the broken one was never durable, and all are
 * cut.  But each record says what was durable when it was written.  So the search goes on
 * behind the break through the whole ring: if any valid record there, of this epoch or a later
 * one, says that the broken record's lsn was durable, then what is broken was promised: damage,
 * reported and left alone (P6).
 *
 * The driver brings bytes in windows of its choice; the parser keeps its place as a virtual
 * position and asks again from there.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core_state.h"
#include "report.h"

enum recovery_state {
    RECOVERY_HEADER,  /* at: end of the last good record; expects the next header */
    RECOVERY_AFTER,   /* at: the next sector, where an EPOCH record may follow a cut */
    RECOVERY_PAYLOAD, /* at: inside the payload of `record` */
    RECOVERY_SEARCH,  /* at: behind the break, looking for witnesses of damage */
    RECOVERY_COMPLETE,
};

struct recovery {
    struct core *core;
    uint64_t to_lsn;
    recovery_visit *visit;
    void *opaque;

    enum recovery_state state;
    uint64_t at;           /* virtual position to be parsed next */
    uint64_t limit;        /* tail + ring_bytes: all of the ring was seen */
    struct ring_mark last; /* the last good record; position is its end */
    struct record record;  /* PAYLOAD: header of the one being read */
    uint64_t payload_left;
    bool looked_behind; /* for an EPOCH record on the sector behind the last good one */
    XXH3_state_t *sum;

    const uint8_t *window; /* bytes at hand, during recovery_feed */
    uint64_t window_at, window_end;

    struct recovery_result result;
};

int recovery_create(struct recovery **out, struct core *c, uint64_t to_lsn,
                    recovery_visit *visit, void *opaque)
{
    struct recovery *r = calloc(1, sizeof(*r));

    assert(c->life == CORE_INERT);
    if (r == NULL)
        return -ENOMEM;
    r->sum = XXH3_createState();
    if (r->sum == NULL) {
        free(r);
        return -ENOMEM;
    }
    r->core = c;
    r->to_lsn = to_lsn;
    r->visit = visit;
    r->opaque = opaque;
    r->last = c->tail;
    r->at = c->tail.position;
    r->limit = c->tail.position + c->sb.ring_bytes;
    r->state = c->sb.state & SUPER_STATE_CLEAN ? RECOVERY_COMPLETE : RECOVERY_HEADER;
    *out = r;
    return 0;
}

bool recovery_next(struct recovery *r, size_t bytes_max, uint64_t *position, size_t *count)
{
    const struct superblock *sb = &r->core->sb;
    uint64_t start = r->at / sb->sector_bytes * sb->sector_bytes;
    uint64_t room = sb->ring_bytes - start % sb->ring_bytes;

    if (r->state == RECOVERY_COMPLETE)
        return false;
    assert(r->at < r->limit && bytes_max >= sb->sector_bytes);
    if (room > r->limit - start)
        room = r->limit - start;
    if (room > bytes_max)
        room = bytes_max / sb->sector_bytes * sb->sector_bytes;
    r->window_at = start;
    *position = start;
    *count = room;
    return true;
}

/* The header at r->at, if it is in the window and valid on its own. */
static bool header_here(struct recovery *r, struct record *record)
{
    const struct core *c = r->core;
    return format_record_decode(c->seed, r->window + (r->at - r->window_at), r->at,
                                c->sb.ring_bytes, record) == FORMAT_OK;
}

static bool in_window(const struct recovery *r)
{
    return r->at >= r->window_at && r->at < r->window_end;
}

static void break_at(struct recovery *r, uint64_t position)
{
    r->result.lost_position = position;
    r->at = position;
    r->state = RECOVERY_SEARCH;
}

/* Goes to the position where the next record may begin, or ends when the ring was seen. */
static void go_to(struct recovery *r, uint64_t at, enum recovery_state state)
{
    r->at = at;
    r->state = at < r->limit ? state : RECOVERY_COMPLETE;
}

/* What is behind the last good record is not the next one.  An earlier recovery may have cut
 * there, whatever it found (a record whose payload was torn keeps its header): then an EPOCH
 * record is on the next sector. */
static void no_next(struct recovery *r, bool torn)
{
    uint64_t sector = round_up(r->last.position, r->core->sb.sector_bytes);

    r->result.torn |= torn;
    if (PLANTED(25) && torn) /* an EPOCH record behind it is not looked for */
        r->looked_behind = true;
    if (!r->looked_behind && sector != r->last.position && sector < r->limit) {
        r->looked_behind = true;
        go_to(r, sector, RECOVERY_AFTER);
    } else {
        break_at(r, r->last.position);
    }
}

/* The record is wholly valid and the next one in the chain. */
static int accept(struct recovery *r)
{
    struct core *c = r->core;
    const struct record *record = &r->record;
    struct core_image *image;
    int e = 0;

    r->last = (struct ring_mark){.position = record->position + record->span_bytes,
                                 .lsn = record->lsn,
                                 .chain = record->header_sum,
                                 .epoch = record->epoch};
    core_remember_mark(c, &r->last);
    r->looked_behind = false;
    r->result.torn = false;
    go_to(r, r->last.position, RECOVERY_HEADER);
    if (record->lsn == r->to_lsn) /* what is behind is not asked for, damaged or not */
        r->state = RECOVERY_COMPLETE;
    if (r->visit != NULL)
        e = r->visit(r->opaque, record);
    if (e < 0 || record->kind == RECORD_PAD || record->kind == RECORD_EPOCH)
        return e;
    if (PLANTED(19) && record->kind == RECORD_ZERO) /* forgotten */
        return e;

    r->result.records++;
    r->result.payload_bytes += record->payload_bytes;
    if (r->result.first_us == 0)
        r->result.first_us = record->time_us;
    r->result.last_us = record->time_us;
    image = core_image_find(c, record->image_id);
    if (image != NULL && record->offset < image->entry.size) {
        uint64_t room = image->entry.size - record->offset;
        uint64_t position = record->kind == RECORD_WRITE
                                ? record->position + FORMAT_RECORD_BYTES
                            : record->kind == RECORD_TRIM ? MAP_TRIM
                                                          : MAP_ZERO;
        e = map_reserve(&c->pool);
        if (e < 0) {
            report_error("recovery: memory for the map of the journal is used up after %zu "
                         "ranges: give it more (memory=)",
                         c->pool.used);
            return e;
        }
        map_insert(&image->map, record->offset, record->length < room ? record->length : room,
                   record->lsn, position);
        image->published_lsn = record->lsn;
    }
    return 0;
}

static int parse_payload(struct recovery *r)
{
    uint64_t here = r->window_end - r->at;

    if (here > r->payload_left)
        here = r->payload_left;
    if (here > 0)
        XXH3_64bits_update(r->sum, r->window + (r->at - r->window_at), here);
    r->at += here;
    r->payload_left -= here;
    if (r->payload_left > 0)
        return 0;
    if (PLANTED(4)) /* the payload's checksum is not looked at */
        return accept(r);
    if (r->record.payload_bytes > 0 && XXH3_64bits_digest(r->sum) != r->record.payload_sum) {
        no_next(r, true);
        return 0;
    }
    return accept(r);
}

/* Starts on a record whose header is valid and the next one. */
static int begin_record(struct recovery *r)
{
    if (r->record.lsn > r->to_lsn) {
        r->state = RECOVERY_COMPLETE;
        return 0;
    }
    if (PLANTED(36) && /* one that ends where the ring does is not taken */
        (r->record.position + r->record.span_bytes) % r->core->sb.ring_bytes == 0 &&
        r->record.kind == RECORD_WRITE)
        return no_next(r, true), 0;
    if (r->record.position + r->record.span_bytes > r->limit) {
        no_next(r, true);
        return 0;
    }
    r->state = RECOVERY_PAYLOAD;
    r->at += FORMAT_RECORD_BYTES;
    r->payload_left = r->record.payload_bytes;
    XXH3_64bits_reset_withSeed(r->sum, r->core->seed);
    return r->payload_left == 0 ? accept(r) : 0;
}

static bool is_next(const struct recovery *r)
{
    const struct record *n = &r->record;

    if (PLANTED(15) && n->lsn > r->last.lsn) /* whatever is newer, also of a lost epoch */
        return true;
    if (n->chain != r->last.chain)
        return false;
    if (n->kind == RECORD_EPOCH)
        return n->epoch > r->last.epoch && n->cut_lsn == r->last.lsn && n->lsn > r->last.lsn &&
               n->position % r->core->sb.sector_bytes == 0;
    return r->state == RECOVERY_HEADER && n->epoch == r->last.epoch &&
           n->lsn == r->last.lsn + 1;
}

static int parse_header(struct recovery *r)
{
    if (header_here(r, &r->record) && is_next(r))
        return begin_record(r);
    no_next(r, false);
    return 0;
}

/* Behind the break: a valid record of the future of the last good one says what was durable. */
static void search(struct recovery *r)
{
    struct record witness;

    for (; r->at < r->window_end; r->at += FORMAT_UNIT) {
        if (!header_here(r, &witness) || witness.lsn <= r->last.lsn)
            continue;
        r->result.torn = true;
        if (witness.durable_lsn > r->last.lsn && witness.durable_lsn > r->result.durable_seen) {
            r->result.durable_seen = witness.durable_lsn;
            r->result.witness_position = r->at;
        }
    }
    go_to(r, r->at, RECOVERY_SEARCH);
}

int recovery_feed(struct recovery *r, const uint8_t *bytes, size_t count)
{
    int e = 0;

    r->window = bytes;
    r->window_end = r->window_at + count;
    while (e == 0 && r->state != RECOVERY_COMPLETE && in_window(r)) {
        switch (r->state) {
        case RECOVERY_HEADER:
        case RECOVERY_AFTER:
            e = parse_header(r);
            break;
        case RECOVERY_PAYLOAD:
            e = parse_payload(r);
            break;
        case RECOVERY_SEARCH:
            search(r);
            break;
        case RECOVERY_COMPLETE:
            break;
        }
    }
    return e;
}

void recovery_finish(struct recovery *r, struct recovery_result *result)
{
    struct core *c = r->core;
    uint64_t sector = c->sb.sector_bytes;
    struct core_image *image;

    r->result.cut = r->last;
    r->result.live_bytes = r->last.position - c->tail.position;
    r->result.verdict = r->result.durable_seen != 0 ? RECOVERY_DAMAGED
                        : r->result.records != 0    ? RECOVERY_REPLAY
                                                    : RECOVERY_EMPTY;
    *result = r->result;

    if (!(c->sb.state & SUPER_STATE_CLEAN) &&
        !PLANTED(61)) { /* only what this server writes is flushed */
        /* For all that the dead server answered (bypass.c). */
        TAILQ_FOREACH (image, &c->images, link)
            image->bypass_ended = (image->entry.flags & IMAGE_FLAG_BYPASS) != 0;
    }
    c->durable = r->last;
    c->durable.position = c->head = round_up(r->last.position, sector);
    c->published_position = c->head;
    c->submitted_position = c->staged_position = c->head;
    c->last_lsn = c->published_lsn = r->last.lsn;
    c->last_chain = r->last.chain;
    if (c->epoch < r->last.epoch)
        c->epoch = r->last.epoch;
    XXH3_freeState(r->sum);
    free(r);
}
