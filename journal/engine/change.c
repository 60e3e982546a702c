/* change: write, zero, trim.  The way of a change:
 *
 *   1 checksum of the payload      without the lock
 *   2 admit: lsn, place, header    under the lock: fixes the order (P2)
 *   3 copy header and payload      without the lock, many threads at once
 *   4 copied, published            under the lock; published in lsn order
 *   5 with FUA: durable            joins a commit or leads one (commit_wait.c)
 *
 * Large writes without FUA go another way, if they may: bypass.c.
 *
 * The answer waits for 4 even if an earlier change is still being copied: after kill -9
 * recovery goes from record to record and stops at a hole (P0).
 */
#include <assert.h>
#include <errno.h>

#include "engine_state.h"
#include "probes.h"

struct change {
    enum record_kind kind;
    bool fua;
    uint64_t offset, length;
    const void *payload; /* WRITE */
    const struct engine_client *who;
    struct engine_disk *disk;
    uint64_t payload_sum;
};

static int try_admit_locked(struct engine *e, struct append *a,
                            const struct change *change) REQUIRES_LOCK
{
    int r = engine_may_change_locked(change->disk);

    return r < 0 ? r
                 : core_append_admit(e->core, a, change->disk->image, change->kind,
                                     change->fua ? RECORD_FLAG_FUA : 0, change->offset,
                                     change->length, change->payload_sum, clock_wall_us());
}

/* The queue for space is fair by bytes, not in order of arrival: a stream with many writes in flight
 * must not starve a client with one small one.  Each client's changes are due one after the other, as
 * many bytes apart as they are long, from the clock on, which is what the last one admitted was due at
 * (start-time fair queueing, Goyal 1996, with one weight).  A large one is not starved by small ones
 * that come later (P8): the clock comes to it. */
static void queue_enter_locked(struct engine *e, struct admission *self,
                               const struct change *change) REQUIRES_LOCK
{
    uint64_t bytes = FORMAT_RECORD_BYTES + (change->payload != NULL ? change->length : 0);
    uint64_t from = e->admission_clock;
    struct admission *a;

    self->client = change->who != NULL ? change->who->client : 0;
    condition_init(&self->turn);
    TAILQ_FOREACH (a, &e->admissions, link) {
        if (a->client == self->client && a->due > from)
            from = a->due;
    }
    self->due = from + bytes;
    TAILQ_FOREACH_REVERSE(a, &e->admissions, admission_queue, link)
    {
        if (a->due <= self->due)
            break;
    }
    if (a != NULL)
        TAILQ_INSERT_AFTER(&e->admissions, a, self, link);
    else
        TAILQ_INSERT_HEAD(&e->admissions, self, link);
}

static void queue_leave_locked(struct engine *e, struct admission *self) REQUIRES_LOCK
{
    struct admission *first;

    TAILQ_REMOVE(&e->admissions, self, link);
    condition_destroy(&self->turn);
    if (self->due > e->admission_clock)
        e->admission_clock = self->due;
    first = TAILQ_FIRST(&e->admissions);
    if (first != NULL)
        condition_signal(&first->turn);
}

/* Waits in the queue until it is this change's turn and there is space, or waiting makes no
 * sense any more. */
static int admit_in_turn_locked(struct engine *e, struct append *a,
                                const struct change *change) REQUIRES_LOCK
{
    uint64_t begun_ns = clock_now_ns(), waited_ns;
    struct admission self;
    int r = -EAGAIN;

    queue_enter_locked(e, &self, change);
    for (;;) {
        if (TAILQ_FIRST(&e->admissions) == &self) {
            r = try_admit_locked(e, a, change);
            if (r != -EAGAIN)
                break;
            /* What was published while another submission was under way waits for this. */
            if (engine_submit_all_locked(e))
                continue;
            if (core_commit_due(e->core)) {
                engine_commit_all_locked(e);
                continue;
            }
            condition_signal(&e->work); /* only a checkpoint makes space */
        }
        condition_wait(&self.turn, &e->lock);
    }
    queue_leave_locked(e, &self);
    waited_ns = clock_now_ns() - begun_ns;
    stats_throttled_locked(e, change->who, waited_ns);
    probe_throttle(waited_ns, r);
    return r;
}

/* Waits for the range, then for space: a bypassing write that comes meanwhile stays behind. */
static int admit_after_waiting_locked(struct engine *e, struct append *a,
                                      const struct change *change) REQUIRES_LOCK
{
    struct claim claim;
    int r;

    engine_claim_locked(e, &claim, change->disk->image, change->offset, change->length);
    a->claim = &claim;
    r = admit_in_turn_locked(e, a, change);
    a->claim = NULL;
    engine_claim_end_locked(e, &claim);
    return r;
}

static int admit(struct engine *e, struct append *a, const struct change *change) EXCLUDES_LOCK
{
    int r = -EAGAIN;
    LOCK_SCOPE(&e->lock);

    engine_touch_locked(e);
    if (TAILQ_EMPTY(&e->admissions))
        r = try_admit_locked(e, a, change);
    if (r == -EAGAIN || r == -EBUSY)
        r = admit_after_waiting_locked(e, a, change);
    if (r == 0) {
        atomic_store(&e->drained, 0);
        engine_arm_locked(e);
        stats_admitted_locked(e, change->disk, a->record.position);
        probe_admit(a->record.lsn, a->record.image_id, change->kind, change->offset,
                    change->length);
    }
    return r;
}

/* P0: waits until this record and all before it are copied.  P1: with fua until they are
 * durable. */
static int publish(struct engine *e, struct append *a, int error,
                   const struct change *change) EXCLUDES_LOCK
{
    int r = 0;

    lock_acquire(&e->lock);
    engine_record_copied_locked(e, a, error);
    while (a->state == APPEND_COPIED)
        engine_await_published_locked(e);
    if (a->state == APPEND_FAILED)
        r = -EIO;
    else if (change->fua)
        return engine_commit_wait_release(e, a->record.lsn, change->who);
    else
        engine_submit_all_locked(e);
    lock_release(&e->lock);
    return r;
}

/* One record; length is at most the atomic maximum for a WRITE (P3). */
static int change_once(const struct change *change)
{
    struct engine *e = change->disk->engine;
    struct append a = {.state = APPEND_IDLE};
    int r;

    r = admit(e, &a, change);
    if (r < 0)
        return r;
    r = engine_record_write(e, &a, change->payload);
    return publish(e, &a, r, change);
}

static int journal_write(struct engine_disk *d, const uint8_t *bytes, uint32_t count,
                         uint64_t offset, bool fua, const struct engine_client *who)
{
    struct change change = {
        .kind = RECORD_WRITE,
        .fua = fua,
        .offset = offset,
        .length = count,
        .payload = bytes,
        .payload_sum = format_sum(d->engine->seed, bytes, count),
        .who = who,
        .disk = d,
    };

    return change_once(&change);
}

int engine_write(struct engine_disk *d, const void *buf, uint32_t count, uint64_t offset,
                 bool fua, const struct engine_client *who)
{
    const uint8_t *bytes = buf;
    uint32_t atomic_max = d->engine->atomic_max;
    int r = 0;

    /* What is larger than a record may be, or goes straight to the image, does so in parts: in
     * order, only the last one needs to wait for a commit, which covers all. */
    while (count > 0 && r == 0) {
        uint32_t part = fua ? 0 : engine_bypass_part(d->engine, count);

        r = part > 0 ? engine_bypass_write(d, bytes, part, offset) : 1;
        if (r == 1) {
            part = part > 0 && part < atomic_max ? part
                   : count < atomic_max          ? count
                                                 : atomic_max;
            r = journal_write(d, bytes, part, offset, fua && part == count, who);
        }
        bytes += part;
        offset += part;
        count -= part;
    }
    return r;
}

int engine_zero(struct engine_disk *d, uint32_t count, uint64_t offset, bool may_trim, bool fua,
                const struct engine_client *who)
{
    struct change change = {
        .kind = may_trim ? RECORD_TRIM : RECORD_ZERO,
        .fua = fua,
        .offset = offset,
        .length = count,
        .who = who,
        .disk = d,
    };

    return count == 0 ? 0 : change_once(&change);
}

int engine_trim(struct engine_disk *d, uint32_t count, uint64_t offset, bool fua,
                const struct engine_client *who)
{
    return engine_zero(d, count, offset, true, fua, who);
}
