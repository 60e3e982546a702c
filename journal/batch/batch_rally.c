/* batch_rally: waits for those who were just answered, as long as it pays.
 *
 * Why wait at all.  Clients that write, flush, and soon flush again fall into two groups: one
 * is committed while the other gathers, so each flush takes two commits, and each commit
 * carries half of the clients.  If they rode together it would take one commit and a short
 * wait: nearly twice as many flushes a second (measured by others on real systems with 4 and
 * more writers, and by tests/batch: 1.8 for a disk of 1 ms).
 *
 * Why not as long as a commit, like jbd2.  Most of that wait is for nobody, and all who are
 * there lose it.  We measure how soon an answered flush is followed by the next one of the same
 * connection (the *return delay*), as a histogram that forgets.  It tells for every possible
 * wait w how many of the m that were answered and are not back yet will come:
 *
 *   K(w)  come within w
 *   J(w)  come later, but before a commit that begins now would end (they wait either way,
 *         and would have to wait w longer)
 *
 * Each of the K saves the fixed part F of a commit, and the usual wait W before the next one.
 * Each of the n that are here, and of the J, loses w.  So the wait is that with the largest
 *
 *   7/8 K(w) (F + min(W, F)) - (n + J(w)) w
 *
 * if there is one above zero.  7/8, because the best of many noisy estimates looks better than
 * it is.  The wait ends when all are back, and never lasts longer than F: so it can't cost more
 * than a factor of two, whatever the estimates are worth.
 *
 * F, not the whole commit: bytes must be written by whichever commit carries them.  It comes
 * from a regression of the duration over the bytes, from first differences, which are immune to
 * a slow drift of the device.  What is known of the slope is only forgotten as something new is
 * learned, not with time: when all ride together the commits are alike and teach nothing, and F
 * would grow to the whole commit, and the waits with it.  (Random populations against the best
 * of all policies, throughput and latency at the 99th percentile: 1.17 / 1.24 when it was
 * forgotten with time, 1.09 / 1.11 so.)
 *
 * A leader that sleeps wakes up late.  That is measured, too, and belongs to the wait: there is
 * none that is shorter.  (The worst scenario with wake-ups of 30 us: 1.26 / 1.70 without this,
 * 1.10 / 1.17 with it.)
 *
 * The split guard: it can happen that all clients are in phase and the device is idle for
 * longer than a commit takes, while they think.  Two groups would use that time.  No waiting
 * then, so that they drift apart.
 *
 * A client that is alone is never held: nobody is outstanding.  Several flushes of one
 * connection are company for each other, without any special case.
 */
#include <stddef.h>

#include "batch_state.h"

#define DELAYS_MIN 8      /* no waits before so many were seen */
#define DELAYS_MAX 256    /* then all are halved: half of what is known is as old as that */
#define AVERAGE 8         /* 1/8 of the newest sample */
#define SLOPE_MEMORY 4    /* how much is known of the slope, in squares of a usual commit */
#define RIDGE (1.0 / 128) /* pulls the slope to 0 as long as all commits were alike in size */
#define OUTLIER 4         /* a commit counts at most as 4 usual ones */
#define FIXED_MIN (1.0 / 16)
#define MARGIN (7.0 / 8)
#define SPLIT_IDLE 0.8    /* idle for more than so many F */
#define SPLIT_RETURNS 0.5 /* and so many come back within a commit */
#define REPLAN 1.25       /* more company than planned for: think again */
#define EDGE_NS 100       /* a return right at a bucket's edge is awaited, too */

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- the histogram of return delays ---- */

static unsigned bucket_of(uint64_t delay_ns)
{
    unsigned octave, bucket;

    if (delay_ns < 1024)
        return 0;
    octave = 63 - (unsigned)__builtin_clzll(delay_ns);
    bucket = (octave - 10) * 4 + (delay_ns >> (octave - 2) & 3) + 1;
    return bucket < RETURN_BUCKETS ? bucket : RETURN_BUCKETS - 1;
}

/* Where it ends; not for the last one. */
static double bucket_end(unsigned bucket)
{
    return (double)((4 + bucket % 4) * (UINT64_C(1) << (8 + bucket / 4)));
}

/* Of those in the histogram, how many came back within the delay. */
static double returned_within(const struct rally *r, double delay_ns)
{
    unsigned bucket;
    double begin, end;

    if (delay_ns <= 0)
        return 0;
    bucket = bucket_of((uint64_t)delay_ns);
    if (bucket == RETURN_BUCKETS - 1)
        return r->below[bucket];
    begin = bucket > 0 ? bucket_end(bucket - 1) : 0;
    end = bucket_end(bucket);
    return r->below[bucket] +
           (r->below[bucket + 1] - r->below[bucket]) * (delay_ns - begin) / (end - begin);
}

static struct cohort *cohort_find(struct rally *r, uint64_t id)
{
    for (unsigned i = 0; i < COHORTS; i++) {
        if (r->cohorts[i].id == id)
            return &r->cohorts[i];
    }
    return NULL;
}

void rally_returned(struct batch *b, const struct answers *answers)
{
    struct rally *r = &b->rally;
    struct cohort *cohort = cohort_find(r, answers->cohort);

    if (cohort != NULL)
        cohort->outstanding--;
    r->delays[bucket_of(b->now_ns - answers->end_ns)]++;
    r->delay_count++;
    if (r->delay_count > DELAYS_MAX) {
        for (unsigned i = 0; i < RETURN_BUCKETS; i++)
            r->delays[i] /= 2;
        r->delay_count /= 2;
    }
}

void rally_lost(struct batch *b, const struct answers *answers)
{
    struct cohort *cohort = cohort_find(&b->rally, answers->cohort);

    if (cohort != NULL)
        cohort->outstanding -= answers->count;
}

/* ---- what a commit teaches ---- */

static void rally_begin(struct batch *b)
{
    struct rally *r = &b->rally;
    double idle_ns;

    r->plan_until_ns = 0;
    if (b->pending_count == 0 || !b->ended)
        return;
    r->held_ns += ((double)(b->now_ns - batch_ready_ns(b)) - r->held_ns) / AVERAGE;
    idle_ns = smaller((double)(b->now_ns - b->end_ns), OUTLIER * r->commit_ns);
    r->idle_ns += (idle_ns - r->idle_ns) / AVERAGE;
}

static void learn_duration(struct rally *r, double duration_ns, double bytes)
{
    double slope;

    if (r->commit_ns == 0) {
        r->commit_ns = r->fixed_ns = duration_ns;
        return; /* what the first one carried may be from before the start */
    }
    duration_ns = smaller(duration_ns, OUTLIER * r->commit_ns);
    r->commit_ns += (duration_ns - r->commit_ns) / AVERAGE;
    if (r->bytes_mean == 0) {
        r->bytes_mean = bytes;
    } else {
        double dx = bytes - r->bytes_before, dy = duration_ns - r->duration_before, most;

        r->bytes_mean += (bytes - r->bytes_mean) / AVERAGE;
        r->sum_xx += dx * dx;
        r->sum_xy += dx * dy;
        most = SLOPE_MEMORY * r->bytes_mean * r->bytes_mean;
        if (r->sum_xx > most) {
            r->sum_xy *= most / r->sum_xx;
            r->sum_xx = most;
        }
    }
    r->bytes_before = bytes;
    r->duration_before = duration_ns;
    slope = r->sum_xy / (r->sum_xx + RIDGE * r->bytes_mean * r->bytes_mean + 1);
    r->fixed_ns =
        larger(r->commit_ns - larger(slope, 0) * r->bytes_mean, FIXED_MIN * r->commit_ns);
}

static uint64_t rally_end(struct batch *b, uint64_t duration_ns, uint64_t bytes,
                          uint32_t answering)
{
    struct rally *r = &b->rally;

    learn_duration(r, (double)duration_ns, (double)bytes);
    r->below[0] = 0;
    for (unsigned i = 0; i < RETURN_BUCKETS; i++)
        r->below[i + 1] = r->below[i] + r->delays[i];
    for (unsigned i = 1; i < COHORTS; i++)
        r->cohorts[i - 1] = r->cohorts[i];
    r->cohorts[COHORTS - 1] = (struct cohort){
        .id = ++r->cohort_last,
        .end_ns = b->now_ns,
        .outstanding = answering,
    };
    return r->cohort_last;
}

/* ---- the decision ---- */

/* A cohort of which somebody may still come, seen from now. */
struct prospect {
    double age_ns;
    double gone;  /* of those in the histogram, how many were back at that age */
    double scale; /* outstanding, for each that was not */
};

static double expected_within(const struct rally *r, const struct prospect *prospects,
                              unsigned count, double wait_ns)
{
    double sum = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct prospect *p = &prospects[i];
        sum += p->scale * (returned_within(r, p->age_ns + wait_ns) - p->gone);
    }
    return sum;
}

static unsigned prospects_find(const struct batch *b, struct prospect *prospects)
{
    const struct rally *r = &b->rally;
    unsigned count = 0;

    for (unsigned i = 0; i < COHORTS; i++) {
        const struct cohort *cohort = &r->cohorts[i];
        struct prospect *p = &prospects[count];
        double left;

        if (cohort->id == 0 || cohort->outstanding == 0)
            continue;
        p->age_ns = (double)(b->now_ns - cohort->end_ns);
        p->gone = returned_within(r, p->age_ns);
        left = r->below[RETURN_BUCKETS] - p->gone;
        if (left <= 0)
            continue;
        p->scale = cohort->outstanding / left;
        count++;
    }
    return count;
}

/* When the commit is best begun, from now; 0: at once.  A leader that sleeps begins late. */
static double start_choose(const struct batch *b, double limit_ns)
{
    const struct rally *r = &b->rally;
    struct prospect prospects[COHORTS];
    unsigned count = prospects_find(b, prospects);
    double soon = expected_within(r, prospects, count, r->commit_ns);
    double saved_ns = MARGIN * (r->fixed_ns + smaller(r->held_ns, r->fixed_ns));
    double best = 0, best_start_ns = 0;

    /* Within a bucket all is linear: only ends of buckets (and the limit) can be best. */
    for (unsigned i = 0; i < count; i++) {
        double age_ns = prospects[i].age_ns, start_ns = 0;
        for (unsigned bucket = bucket_of((uint64_t)(age_ns + b->wake_ns)); start_ns < limit_ns;
             bucket++) {
            double within, later, value;

            start_ns = bucket < RETURN_BUCKETS - 1 ? bucket_end(bucket) - age_ns : limit_ns;
            start_ns = smaller(start_ns, limit_ns);
            within = expected_within(r, prospects, count, start_ns);
            later = larger(soon - within, 0);
            value = within * saved_ns - (b->pending_count + later) * start_ns;
            if (value > best) {
                best = value;
                best_start_ns = start_ns;
            }
        }
    }
    return best_start_ns;
}

static bool split_is_better(const struct rally *r)
{
    return r->idle_ns > SPLIT_IDLE * r->fixed_ns &&
           returned_within(r, r->commit_ns) > SPLIT_RETURNS * r->below[RETURN_BUCKETS];
}

static uint32_t outstanding(const struct rally *r)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < COHORTS; i++)
        sum += r->cohorts[i].outstanding;
    return sum;
}

static bool plan_holds(const struct batch *b)
{
    const struct rally *r = &b->rally;

    return b->now_ns < r->plan_until_ns && b->pending_count < REPLAN * r->plan_pending &&
           outstanding(r) > 0;
}

/* Until when to wait for company, 0: not at all. */
static uint64_t plan_make(const struct batch *b)
{
    const struct rally *r = &b->rally;
    double limit_ns = smaller(r->fixed_ns, (double)b->max_ns);
    double start_ns;

    limit_ns -= (double)(b->now_ns - batch_ready_ns(b));
    if (r->below[RETURN_BUCKETS] < DELAYS_MIN || limit_ns <= b->wake_ns || split_is_better(r))
        return 0;
    start_ns = start_choose(b, limit_ns);
    return start_ns > 0 ? b->now_ns + (uint64_t)(start_ns - b->wake_ns) + EDGE_NS : 0;
}

static enum batch_answer rally_consult(struct batch *b, uint64_t *until_ns)
{
    struct rally *r = &b->rally;
    uint64_t first_ns = batch_ready_ns(b) + b->min_ns;

    if (!plan_holds(b)) {
        r->plan_until_ns = plan_make(b);
        r->plan_pending = b->pending_count;
    }
    *until_ns = r->plan_until_ns;
    /* min-batch-time asks for a wait where we see no use; but not by one that is alone. */
    if (*until_ns < first_ns && (b->pending_count > 1 || outstanding(r) > 0))
        *until_ns = first_ns;
    return b->now_ns < *until_ns ? BATCH_WAIT : BATCH_GO;
}

static void rally_stats(const struct batch *b, struct batch_stats *stats)
{
    const struct rally *r = &b->rally;
    unsigned median = 0;
    double below = 0;

    stats->commit_ns = (uint64_t)r->commit_ns;
    stats->fixed_ns = (uint64_t)r->fixed_ns;
    stats->held_ns = (uint64_t)r->held_ns;
    stats->idle_ns = (uint64_t)r->idle_ns;
    if (r->delay_count == 0)
        return;
    while (median < RETURN_BUCKETS - 2 && below + r->delays[median] < r->delay_count / 2)
        below += r->delays[median++];
    stats->return_ns = (uint64_t)bucket_end(median);
}

const struct policy policy_rally = {
    .name = "rally",
    .consult = rally_consult,
    .begin = rally_begin,
    .end = rally_end,
    .stats = rally_stats,
};
