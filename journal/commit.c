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

int core_durable_check(const struct core *c, uint64_t lsn)
{
    if (c->durable.lsn >= lsn)
        return 0;
    return c->error != 0 ? -EIO : -EAGAIN;
}

int core_commit_begin(struct core *c, struct commit *commit, uint64_t now_us)
{
    uint64_t used = c->head % c->sb.sector_bytes;

    if (c->error != 0)
        return -EIO;
    if (c->commit_in_flight)
        return -EBUSY;
    if (c->last_lsn == c->durable.lsn)
        return 1;

    commit->has_seal = used != 0;
    if (commit->has_seal) {
        struct append *seal = &commit->seal;
        *seal = (struct append){.state = APPEND_ADMITTED};
        seal->record =
            (struct record){.kind = RECORD_PAD, .lsn = c->last_lsn + 1, .time_us = now_us};
        core_record_place(c, &seal->record, c->sb.sector_bytes - used, seal->header);
        TAILQ_INSERT_TAIL(&c->inflight, seal, link);
    }
    commit->target_lsn = c->last_lsn;
    commit->mark = (struct ring_mark){
        .position = c->head, .lsn = c->last_lsn, .chain = c->last_chain, .epoch = c->epoch};
    c->commit_in_flight = true;
    return 0;
}

bool core_commit_ready(const struct core *c, const struct commit *commit)
{
    return c->error != 0 || (c->published_lsn >= commit->target_lsn && !c->submit_in_flight);
}

bool core_commit_submit(struct core *c, const struct commit *commit, uint64_t *from,
                        uint64_t *to)
{
    if (c->error != 0 || c->submitted_position >= commit->mark.position)
        return false;
    assert(!c->submit_in_flight);
    core_submit_range(c, commit->mark.position, from, to);
    c->submit_in_flight = true;
    return true;
}

void core_commit_end(struct core *c, struct commit *commit, int error)
{
    assert(c->commit_in_flight);
    c->commit_in_flight = false;
    if (error != 0 || c->error != 0) {
        /* P4: after a failed barrier the page cache can't be trusted, a second one may lie. */
        core_abort(c, error != 0 ? error : c->error);
        return;
    }
    assert(c->published_lsn >= commit->target_lsn);
    c->stats.commits++;
    c->stats.commit_records += commit->target_lsn - c->durable.lsn;
    assert(c->staged_position >= commit->mark.position);
    c->durable = commit->mark;
}
