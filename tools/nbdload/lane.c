/* lane: see lane.h. */
#include <assert.h>
#include <math.h>

#include "load_state.h"

/* How often another place is tried when a write in flight is in the way, and how long a lane waits
 * if there is none. */
#define PLACES_TRIED 64
#define PLACE_WAIT_NS 100000u

/* ---- what is sent ---- */

static uint32_t choose_size(struct lane *lane)
{
    const struct options *o = lane->load->options;
    uint64_t ticket;

    if (o->size_count == 1)
        return o->sizes[0].bytes;
    ticket = random_below(&lane->random, lane->load->weight_sum);
    for (size_t i = 0;; i++) {
        if (ticket < o->sizes[i].weight)
            return o->sizes[i].bytes;
        ticket -= o->sizes[i].weight;
    }
}

static void choose_random_place(struct lane *lane)
{
    const struct options *o = lane->load->options;
    const struct target *target = lane->client->target;
    struct request *r = &lane->request;
    uint64_t align, places;

    r->length = choose_size(lane);
    align = o->align != 0 ? o->align : r->length;
    places = (target->end - target->start - r->length) / align + 1;
    r->offset = target->start + random_below(&lane->random, places) * align;
}

/* The lanes of a client write one stream together. */
static void choose_next_place(struct lane *lane)
{
    struct client *client = lane->client;
    struct request *r = &lane->request;

    r->length = choose_size(lane);
    if (client->part_next + r->length > client->part_end)
        client->part_next = client->part_start;
    r->offset = client->part_next;
    client->part_next += r->length;
}

/* False: everywhere are writes in flight that this one must not meet. */
static bool choose_place(struct lane *lane, enum request_kind kind)
{
    const struct ledger_disk *disk = lane->client->target->disk;
    struct request *r = &lane->request;

    for (int i = 0; i < PLACES_TRIED; i++) {
        if (lane->load->options->pattern == PATTERN_SEQ)
            choose_next_place(lane);
        else
            choose_random_place(lane);
        if (disk == NULL || kind == REQUEST_READ || !ledger_busy(disk, r->offset, r->length))
            return true;
    }
    return false;
}

static enum request_kind choose_kind(struct lane *lane)
{
    const struct options *o = lane->load->options;

    switch (o->pattern) {
    case PATTERN_FLUSH:
    case PATTERN_ASYNC:
    case PATTERN_SEQ:
    case PATTERN_FINAL_FLUSH:
        return REQUEST_WRITE;
    case PATTERN_FUA:
        return REQUEST_FUA;
    case PATTERN_MIXED:
        return random_below(&lane->random, 100) < o->read_percent ? REQUEST_READ
                                                                  : REQUEST_WRITE;
    case PATTERN_READ:
        return REQUEST_READ;
    case PATTERN_FLUSH_ONLY:
        return REQUEST_FLUSH;
    case PATTERN_TRACE:
    case PATTERNS:
        break;
    }
    assert(0);
    return REQUEST_FLUSH;
}

/* Something else in each write: a server that compares or deduplicates gets no help. */
static void *choose_payload(struct lane *lane)
{
    struct ledger_disk *disk = lane->client->target->disk;
    struct request *r = &lane->request;

    if (disk == NULL)
        return lane->load->pool + random_below(&lane->random, POOL_STARTS) * 8;
    lane->sequence = ledger_write_begin(disk, r->offset, r->length);
    lane->accounted = true;
    stamp_fill(lane->buffer, ledger_id(disk->ledger), disk->number, lane->number,
               lane->sequence, r->offset, r->length);
    return lane->buffer;
}

/* The ledger knows only whole sectors of its range. */
static bool is_known(const struct ledger_disk *disk, const struct request *r)
{
    return disk != NULL && (r->offset | r->length) % SECTOR == 0 && r->offset >= disk->start &&
           r->offset + r->length <= disk->end;
}

void lane_send_as(struct lane *lane, enum request_kind kind, const void *data)
{
    struct ledger_disk *disk = lane->client->target->disk;
    struct request *r = &lane->request;

    r->kind = kind;
    lane->client->begun++;
    lane->bytes = r->length;
    switch (kind) {
    case REQUEST_FLUSH:
        lane->client->unflushed = 0;
        if (disk != NULL)
            ledger_flush_begin(disk, &lane->flush);
        lane->accounted = disk != NULL;
        break;
    case REQUEST_READ:
        r->buffer = lane->buffer;
        lane->accounted = is_known(disk, r);
        if (lane->accounted)
            ledger_read_begin(disk, r->offset, r->length, lane->floors);
        break;
    case REQUEST_WRITE:
    case REQUEST_FUA:
        lane->client->unflushed += kind == REQUEST_WRITE;
        /* Bytes of a trace can't say who wrote them. */
        r->buffer = data != NULL && disk == NULL ? (void *)data : choose_payload(lane);
        break;
    case REQUEST_TRIM:
    case REQUEST_ZERO:
        lane->client->unflushed += (r->flags & LIBNBD_CMD_FLAG_FUA) == 0;
        lane->accounted = is_known(disk, r);
        if (lane->accounted)
            ledger_forget_begin(disk, r->offset, r->length);
        break;
    case REQUEST_KINDS:
        assert(0);
    }
    lane->load->m.sent++;
    connection_send(lane->connection, r);
}

/* As a part of an operation, or after the last one. */
void lane_send_flush(struct lane *lane)
{
    uint64_t bytes = lane->bytes;

    lane->request.offset = lane->request.length = 0;
    lane->client->begun--; /* it is not one more */
    lane_send_as(lane, REQUEST_FLUSH, NULL);
    lane->bytes = bytes;
}

bool lane_account(struct lane *lane, char *text, size_t size)
{
    struct ledger_disk *disk = lane->client->target->disk;
    struct request *r = &lane->request;
    bool answered = r->outcome == OUTCOME_ANSWERED;

    if (!lane->accounted)
        return true;
    lane->accounted = false;
    switch (r->kind) {
    case REQUEST_FLUSH:
        ledger_flush_end(disk, &lane->flush, answered);
        return true;
    case REQUEST_WRITE:
    case REQUEST_FUA:
        ledger_write_end(disk, r->offset, r->length, lane->sequence, answered,
                         r->kind == REQUEST_FUA);
        return true;
    case REQUEST_READ:
        return !answered ||
               ledger_read_end(disk, r->offset, r->length, lane->floors, r->buffer, text, size);
    case REQUEST_TRIM:
    case REQUEST_ZERO:
        ledger_forget_end(disk, r->offset, r->length);
        return true;
    case REQUEST_KINDS:
        break;
    }
    return true;
}

/* ---- when it is sent ---- */

void lane_begin(struct lane *lane)
{
    enum request_kind kind = choose_kind(lane);

    lane->request.offset = lane->request.length = 0;
    if (kind != REQUEST_FLUSH && !choose_place(lane, kind)) {
        timers_set(&lane->load->timers, &lane->timer, clock_ns() + PLACE_WAIT_NS);
        return;
    }
    lane_send_as(lane, kind, NULL);
}

bool lane_continue(struct lane *lane)
{
    const struct options *o = lane->load->options;
    bool flush = false;

    if (lane->request.kind == REQUEST_WRITE && o->pattern == PATTERN_FLUSH)
        flush = true;
    if (lane->request.kind == REQUEST_WRITE &&
        (o->pattern == PATTERN_ASYNC || o->pattern == PATTERN_MIXED ||
         o->pattern == PATTERN_SEQ))
        flush = o->flush_every != 0 && lane->client->unflushed >= o->flush_every;
    if (flush)
        lane_send_flush(lane);
    return flush;
}

void lane_rest(struct lane *lane)
{
    assert(!lane->resting);
    timers_cancel(&lane->load->timers, &lane->timer);
    lane->resting = true;
    lane->idle = false;
    lane->load->busy--;
}
