/* batch_jbd: the policies that Linux had before us: none, jbd, jbd2.
 *
 * jbd (2006).  Before it every synchronous writer slept for a tick, in case somebody joined: a
 * lone one lost a factor of 4 to 5.  So who was the last one to come doesn't sleep.
 *
 * jbd2 (2008).  A tick is an age on a fast disk (257 files/s where 3603 were possible): the
 * sleep is as long as a commit usually takes, between bounds.  Like there each flush that comes
 * sleeps on its own; the first one to wake closes the transaction, and waits for those who are
 * still asleep in it.  Not like there, who comes after that is taken along, too.
 *
 * In both, being the same client only counts for one that is alone: its flushes that are
 * pending or in flight at the same time are company for each other.
 */
#include "batch_state.h"

/* ---- none ---- */

static enum batch_answer none_consult(struct batch *b, uint64_t *until_ns)
{
    (void)b;
    (void)until_ns;
    return BATCH_GO;
}

const struct policy policy_none = {.name = "none", .consult = none_consult};

/* ---- jbd, jbd2 ---- */

static uint64_t clamp(uint64_t value, uint64_t min, uint64_t max)
{
    return value < min ? min : value > max ? max : value;
}

/* One flush will sleep for so long. */
static void sleep_for(struct batch *b, uint64_t sleep_ns)
{
    struct jbd *j = &b->jbd;
    uint64_t ready_ns = b->now_ns + sleep_ns;

    if (b->pending_count == 0 || ready_ns < j->ready_first_ns)
        j->ready_first_ns = ready_ns;
    if (b->pending_count == 0 || ready_ns > j->ready_last_ns)
        j->ready_last_ns = ready_ns;
}

/* The client that came last, without any other: nobody else is to be expected. */
static bool comes_alone(struct batch *b, uint64_t client, bool company)
{
    struct jbd *j = &b->jbd;
    bool same = !j->client_known || j->client_last == client;

    j->client_known = true;
    j->client_last = client;
    return same && !company;
}

static void jbd_arrive(struct batch *b, uint64_t client, bool company)
{
    bool alone = comes_alone(b, client, company);

    sleep_for(b, alone ? 0 : clamp(b->tick_ns, b->min_ns, b->max_ns));
}

static enum batch_answer jbd_consult(struct batch *b, uint64_t *until_ns)
{
    *until_ns = b->jbd.ready_first_ns;
    return b->now_ns < *until_ns ? BATCH_WAIT : BATCH_GO;
}

static void jbd2_arrive(struct batch *b, uint64_t client, bool company)
{
    struct jbd *j = &b->jbd;
    uint64_t usual_ns = clamp((uint64_t)j->average_ns, b->min_ns, b->max_ns);
    bool alone = comes_alone(b, client, company);

    if (b->pending_count == 0)
        j->gather_begun_ns = b->now_ns;
    /* A transaction that is older than a commit takes has waited enough. */
    if (alone || b->now_ns - j->gather_begun_ns >= usual_ns)
        sleep_for(b, 0);
    else
        sleep_for(b, usual_ns);
}

static enum batch_answer jbd2_consult(struct batch *b, uint64_t *until_ns)
{
    struct jbd *j = &b->jbd;

    if (!j->closed) {
        *until_ns = j->ready_first_ns;
        if (b->now_ns < *until_ns)
            return BATCH_WAIT;
        j->closed = true;
        j->closed_ready_ns = j->ready_last_ns;
    }
    *until_ns = j->closed_ready_ns;
    return b->now_ns < *until_ns ? BATCH_WAIT : BATCH_GO;
}

static void jbd2_begin(struct batch *b)
{
    b->jbd.closed = false;
}

static uint64_t jbd_end(struct batch *b, uint64_t duration_ns, uint64_t bytes,
                        uint32_t answering)
{
    struct jbd *j = &b->jbd;

    (void)bytes;
    (void)answering;
    if (j->average_ns == 0)
        j->average_ns = (double)duration_ns;
    else
        j->average_ns += ((double)duration_ns - j->average_ns) / 4;
    return 0;
}

static void jbd_stats(const struct batch *b, struct batch_stats *stats)
{
    stats->commit_ns = (uint64_t)b->jbd.average_ns;
}

const struct policy policy_jbd = {
    .name = "jbd",
    .arrive = jbd_arrive,
    .consult = jbd_consult,
    .end = jbd_end,
    .stats = jbd_stats,
};

const struct policy policy_jbd2 = {
    .name = "jbd2",
    .arrive = jbd2_arrive,
    .consult = jbd2_consult,
    .begin = jbd2_begin,
    .end = jbd_end,
    .stats = jbd_stats,
};
