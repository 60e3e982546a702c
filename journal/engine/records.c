/* records: what the engine does to the file of the journal: writes records, submits them to the
 * disk, and makes them durable by a barrier.
 *
 * Planned by the core, carried out here without the lock, reported back to the core under it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "engine_state.h"
#include "staging.h"

int engine_record_write(struct engine *e, const struct append *a, const void *payload)
{
    const struct record *r = &a->record;
    struct iovec iov[2] = {
        {.iov_base = (void *)a->header, .iov_len = FORMAT_RECORD_BYTES},
        {.iov_base = (void *)payload, .iov_len = r->payload_bytes},
    };

    if (a->has_pad) {
        int error = storage_write(e->journal.storage, a->pad_header, FORMAT_RECORD_BYTES,
                                  engine_file_offset(e, a->pad_position));
        if (error < 0)
            return error;
    }
    return storage_writev(e->journal.storage, iov, r->payload_bytes != 0 ? 2 : 1,
                          engine_file_offset(e, r->position));
}

void engine_record_copied_locked(struct engine *e, struct append *a, int error)
{
    if (error < 0) {
        char what[80];
        snprintf(what, sizeof(what), "write of %" PRIu32 " bytes at %" PRIu64,
                 FORMAT_RECORD_BYTES + a->record.payload_bytes,
                 engine_file_offset(e, a->record.position));
        engine_abort_locked(e, what, error);
    }
    core_append_copied(e->core, a, error);
    engine_announce_locked(e);
}

void engine_await_published_locked(struct engine *e)
{
    e->published_sleepers++;
    condition_wait(&e->published, &e->lock);
    e->published_sleepers--;
}

/* The kernel reports a failed writeback to *one* of the calls that could learn of it: of two
 * barriers at the same time one may succeed although what it covers is lost.  So there is one
 * at a time, and its failure ends the journal before the next one can begin (P4). */
static int barrier_begin_locked(struct engine *e) REQUIRES_LOCK
{
    while (e->barrier_busy)
        condition_wait(&e->barrier_free, &e->lock);
    if (core_aborted(e->core))
        return -EIO;
    e->barrier_busy = true;
    return 0;
}

static void barrier_end_locked(struct engine *e, int error) REQUIRES_LOCK
{
    e->barrier_busy = false;
    condition_signal(&e->barrier_free);
    if (error < 0)
        engine_abort_locked(e, "flush", error);
}

int engine_journal_barrier_locked(struct engine *e)
{
    int r = barrier_begin_locked(e);

    if (r < 0)
        return r;
    lock_release(&e->lock);
    r = storage_barrier(e->journal.storage);
    lock_acquire(&e->lock);
    barrier_end_locked(e, r);
    return r;
}

/* P0's "answered is not durable": what recovery found may be in memory only, in the page cache
 * or in staging.  It becomes durable before anything is built on it. */
int engine_settle_locked(struct engine *e)
{
    int r = barrier_begin_locked(e);

    if (r < 0)
        return r;
    lock_release(&e->lock);
    r = staging_settle(e->journal.storage, e->start_position);
    lock_acquire(&e->lock);
    barrier_end_locked(e, r);
    if (r == 0)
        e->recovered_durable = true;
    return r;
}

int engine_submit_locked(struct engine *e, uint64_t from, uint64_t to)
{
    int r;

    lock_release(&e->lock);
    r = storage_submit(e->journal.storage, engine_file_offset(e, from), to - from);
    lock_acquire(&e->lock);
    if (r < 0)
        engine_abort_locked(e, "submitting records", r);
    core_submit_end(e->core, r);
    engine_announce_locked(e);
    if (e->published_sleepers > 0)
        condition_broadcast(&e->published); /* a commit waits for the end of submissions, too */
    return r;
}

bool engine_submit_all_locked(struct engine *e)
{
    uint64_t from, to;
    bool any = false;

    while (core_submit_begin(e->core, &from, &to)) {
        engine_submit_locked(e, from, to);
        any = true;
    }
    return any;
}
