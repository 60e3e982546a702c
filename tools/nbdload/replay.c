/* replay: see replay.h.
 *
 * The client walks through the trace's records.  At a request it takes a free lane; at a reply it
 * waits until the lane that sent its request is done.
 */
#include <assert.h>

#include "load_state.h"
#include "replay.h"

static struct lane *find_idle(struct client *client)
{
    for (unsigned i = 0; i < client->lane_count; i++) {
        if (client->lanes[i].idle)
            return &client->lanes[i];
    }
    return NULL;
}

/* With this record's request; `any`: with any. */
static bool is_in_flight(const struct client *client, size_t record, bool any)
{
    for (unsigned i = 0; i < client->lane_count; i++) {
        const struct lane *lane = &client->lanes[i];
        if (!lane->idle && !lane->resting && (any || lane->record == record))
            return true;
    }
    return false;
}

static enum request_kind request_kind_of(const struct trace_record *record)
{
    switch (record->kind) {
    case TRACE_READ:
        return REQUEST_READ;
    case TRACE_WRITE:
        return record->flags & LIBNBD_CMD_FLAG_FUA ? REQUEST_FUA : REQUEST_WRITE;
    case TRACE_FLUSH:
        return REQUEST_FLUSH;
    case TRACE_TRIM:
        return REQUEST_TRIM;
    case TRACE_ZERO:
        return REQUEST_ZERO;
    case TRACE_REPLY:
        break;
    }
    assert(0);
    return REQUEST_FLUSH;
}

static void replay_end(struct client *client)
{
    for (unsigned i = 0; i < client->lane_count; i++) {
        if (client->lanes[i].idle)
            lane_rest(&client->lanes[i]);
    }
}

/* False: later. */
static bool replay_send(struct client *client, size_t number)
{
    struct load *load = client->lanes->load;
    const struct trace_record *record = &load->trace->records[number];
    struct lane *lane = find_idle(client);
    struct ledger_disk *disk = client->target->disk;

    if (lane == NULL)
        return false;
    if (disk != NULL && record->kind != TRACE_READ && record->kind != TRACE_FLUSH &&
        ledger_busy(disk, record->offset, record->length))
        return false;
    lane->idle = false;
    lane->record = number;
    lane->due_ns = clock_ns();
    lane->request.offset = record->offset;
    lane->request.length = record->length;
    lane->request.flags = record->flags & (LIBNBD_CMD_FLAG_FUA | LIBNBD_CMD_FLAG_NO_HOLE |
                                           LIBNBD_CMD_FLAG_FAST_ZERO);
    lane_send_as(lane, request_kind_of(record), record->data);
    return true;
}

static void replay_advance(struct client *client)
{
    struct load *load = client->lanes->load;
    const struct options *o = load->options;
    const struct trace *trace = load->trace;

    for (;;) {
        const struct trace_record *record;

        if (load->phase > LOAD_RUNNING || (o->count != 0 && client->begun >= o->count)) {
            replay_end(client);
            return;
        }
        if (client->record == trace->count) { /* once more, if there is an end to that */
            if (is_in_flight(client, 0, true))
                return;
            if (o->duration_ns == 0 && o->count == 0) {
                replay_end(client);
                return;
            }
            client->record = 0;
        }
        record = &trace->records[client->record];
        if (record->kind == TRACE_REPLY) {
            if (is_in_flight(client, record->request, false))
                return;
        } else if (!replay_send(client, client->record)) {
            return;
        }
        client->record++;
    }
}

void replay_lane_free(struct lane *lane)
{
    lane->idle = true;
    replay_advance(lane->client);
}
