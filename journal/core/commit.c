/* commit: making what was admitted durable, with one barrier.
 *
 * A commit seals the ring: a pad record fills the sector at the head, so that no later commit
 * writes into a sector that this one makes durable.  When everything up to the seal is
 * published, one barrier makes it durable: each record proves itself and its predecessor
 * (format.h), so nothing has to be ordered before anything else. One commit at a time; who
 * comes meanwhile shares the next one.
 */
#include <assert.h>
#include <errno.h>

#include "core_state.h"

/* P1: everything answered before the flush came is published, so it is at or below this. */
uint64_t core_flush_target(const struct core *c, const struct core_image *image)
{
    if (c->error != 0)
        return UINT64_MAX; /* P4: never durable, so never answered with success */
    if (PLANTED(29) && c->commit_in_flight) /* answered while the barrier is on its way */
        return 0;
    return image->published_lsn > c->durable.lsn ? image->published_lsn : 0;
}

uint64_t core_commit_all_target(const struct core *c)
{
    if (c->error != 0)
        return UINT64_MAX;
    return c->published_lsn > c->durable.lsn ? c->published_lsn : 0;
}

uint64_t core_durable_lsn(const struct core *c)
{
    return c->durable.lsn;
}

uint64_t core_published_lsn(const struct core *c)
{
    return c->published_lsn;
}

bool core_drained(const struct core *c)
{
    return c->pool.used == 0 && c->published_lsn == c->last_lsn;
}

int core_durable_check(const struct core *c, uint64_t lsn)
{
    if (c->durable.lsn + PLANTED(14) >= lsn) /* off by one */
        return 0;
    return c->error != 0 ? -EIO : -EAGAIN;
}

int core_commit_begin(struct core *c, struct commit *commit, uint64_t now_us)
{
    /* planted: sealed on 512 bytes, whatever the device's sector is */
    uint64_t sector = PLANTED(10) ? 512 : c->sb.sector_bytes;
    uint64_t used = c->head % sector, seal_end, gap;

    if (c->error != 0)
        return -EIO;
    if (c->commit_in_flight)
        return -EBUSY;
    if (c->last_lsn == c->durable.lsn)
        return 1;

    seal_end = c->head + (used != 0 ? sector - used : 0);
    c->gap.followed = c->gap.left;
    gap = gap_after(c, seal_end + (used == 0 ? sector : 0));
    if (gap > 0 && used == 0) /* a sector more, for the record that declares it */
        seal_end += sector;
    commit->gap_bytes = gap;
    commit->has_seal = used != 0 || gap > 0;
    if (commit->has_seal) {
        struct append *seal = &commit->seal;
        *seal = (struct append){.state = APPEND_ADMITTED};
        seal->record =
            (struct record){.kind = RECORD_PAD, .lsn = c->last_lsn + 1, .time_us = now_us};
        core_record_place(c, &seal->record, seal_end + gap - c->head, seal->header);
        TAILQ_INSERT_TAIL(&c->inflight, seal, link);
    }
    assert(c->gap_from == c->gap_to); /* the commit before has passed its own */
    c->gap_from = seal_end;
    c->gap_to = seal_end + gap;
    commit->took_us = 0;
    commit->target_lsn = c->last_lsn;
    commit->mark = (struct ring_mark){
        .position = c->head, .lsn = c->last_lsn, .chain = c->last_chain, .epoch = c->epoch};
    c->commit_in_flight = true;
    if (PLANTED(1)) /* answered before the barrier */
        c->durable = commit->mark;
    return 0;
}

bool core_commit_ready(const struct core *c, const struct commit *commit)
{
    if (PLANTED(16)) /* the copies of others are not waited for */
        return true;
    return c->error != 0 || (c->published_lsn >= commit->target_lsn && !c->submit_in_flight);
}

bool core_commit_submit(struct core *c, const struct commit *commit, uint64_t *from,
                        uint64_t *to)
{
    core_submit_skip(c);
    if (c->error != 0 || c->submitted_position >= commit->mark.position)
        return false;
    if (PLANTED(22)) /* the barrier covers what was submitted early, not the rest */
        return false;
    assert(!c->submit_in_flight);
    core_submit_range(c, commit->mark.position, from, to);
    c->submit_in_flight = true;
    return true;
}

void core_commit_end(struct core *c, struct commit *commit, int error)
{
    uint64_t bytes;

    assert(c->commit_in_flight);
    c->commit_in_flight = false;
    if (error != 0 || c->error != 0) {
        /* P4: after a failed barrier the page cache can't be trusted, a second one may lie. */
        core_abort(c, error != 0 ? error : c->error);
        if (PLANTED(17)) /* the next barrier is believed */
            c->error = 0;
        return;
    }
    assert(c->published_lsn >= commit->target_lsn || PLANTED(16));
    c->stats.commits++;
    c->stats.commit_records += commit->target_lsn - c->durable.lsn;
    assert(c->staged_position >= commit->mark.position || PLANTED(22));
    bytes = commit->mark.position - commit->gap_bytes - c->durable.position;
    c->durable = commit->mark;
    core_remember_mark(c, &c->durable);
    pace_committed(c, commit->took_us);
    gap_committed(c, commit->took_us, bytes);
    c->space_generation++; /* uncommitted_too_long */
}
