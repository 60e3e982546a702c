/* gap: what the journal leaves out behind a commit, on a disk that turns.
 *
 * An append comes when its predecessor is on the disk, and then the place behind it has just gone
 * by under the head: it waits for a whole turn, 8.4 ms, more than a random write.  A gap as long as
 * what goes by until the next commit comes lets it catch the same turn (DESIGN 5.16).  The seal of
 * a commit, a pad record, declares it as its own; it is not written, and holds what was there.
 *
 * Nobody tells us whether a disk turns: a file system on a loop device, a controller's cache or a
 * virtual machine say what they like.  So it is tried: when commits are slow, each candidate is
 * used for a while, and the best one is kept if it is worth its space.  On flash commits are fast,
 * or no gap helps, and there is none.
 *
 * Only commits after a gap that was left as intended, and with no checkpoint beside them, count;
 * the middle one of a few, so that a disk's heavy tail decides nothing.
 */
#include "core_state.h"

#ifndef GAP_UNIT /* a small one: the simulator's core */
#define GAP_UNIT 16384u
#endif

/* A faster disk does not turn, or has somebody who hides that. */
#define SLOW_US 2000u

/* Larger ones tell of the disk's rate. */
#define COMMIT_BYTES_MAX (512u << 10)

/* It must be worth its space: at most 7/10 of the time without. */
#define WORTH_PARTS 7
#define WORTH_OF 10

/* Commits until it is tried again: what the disk does may change, and a trial costs 50 commits, of
 * which some are slow. */
#define TRIAL_FIRST 8
#define TRIAL_NEXT 4096
#define TRIAL_FAST 256

static uint64_t candidate_bytes(unsigned candidate)
{
    return candidate == 0 ? 0 : (uint64_t)GAP_UNIT << (candidate - 1);
}

void gap_reset(struct core *c)
{
    c->gap = (struct gap){.until_trial = TRIAL_FIRST};
}

static uint64_t gap_intended(const struct core *c)
{
    return c->gap.trying ? candidate_bytes(c->gap.candidate) : c->gap.chosen;
}

/* Bytes to leave out behind a seal that ends at seal_end.  Only while most of the ring is free: a
 * gap takes the space of 32 small writes or so, and a checkpoint that comes so much earlier costs a
 * seeking disk more than the gaps have saved. */
uint64_t gap_after(struct core *c, uint64_t seal_end)
{
    uint64_t sector = c->sb.sector_bytes,
             ring_left = c->sb.ring_bytes - seal_end % c->sb.ring_bytes;
    uint64_t bytes = gap_intended(c) / sector * sector;
    uint64_t limit = c->tail.position + c->sb.ring_bytes / 4;

    if (ring_left == c->sb.ring_bytes)
        ring_left = 0; /* the seal fills the ring's end */
    if (bytes > ring_left)
        bytes = ring_left;
    if (c->space_wanted || seal_end + bytes > limit ||
        (bytes > 0 && pace_holds(c, seal_end + bytes - c->head)))
        bytes = 0;
    if (c->unsubmitted_max != 0 && bytes > c->unsubmitted_max / 4)
        bytes = 0;
    c->gap.left = bytes == gap_intended(c);
    return bytes;
}

static uint64_t median(const uint64_t *samples)
{
    uint64_t sorted[GAP_SAMPLES];

    for (unsigned i = 0; i < GAP_SAMPLES; i++) {
        unsigned at = i;
        for (; at > 0 && sorted[at - 1] > samples[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = samples[i];
    }
    return sorted[GAP_SAMPLES / 2];
}

static void trial_end(struct core *c, uint64_t until_next)
{
    c->gap.trying = false;
    c->gap.until_trial = until_next;
}

static void choose(struct core *c)
{
    struct gap *g = &c->gap;
    unsigned best = 0;

    for (unsigned i = 1; i < GAP_CANDIDATES; i++) {
        if (g->median_us[i] < g->median_us[best])
            best = i;
    }
    /* The smallest that is nearly as good. */
    for (unsigned i = 1; i < best; i++) {
        if (g->median_us[i] <= g->median_us[best] + g->median_us[best] / 8)
            best = i;
    }
    if (g->median_us[best] * WORTH_OF > g->median_us[0] * WORTH_PARTS)
        best = 0;
    g->chosen = candidate_bytes(best);
    trial_end(c, TRIAL_NEXT);
}

static void trial_sample(struct core *c, uint64_t took_us)
{
    struct gap *g = &c->gap;

    g->samples[g->count++] = took_us;
    if (g->count < GAP_SAMPLES)
        return;
    g->median_us[g->candidate] = median(g->samples);
    g->count = 0;
    g->left = false; /* the next commit still follows this candidate's gap */
    if (g->candidate == 0 && g->median_us[0] < SLOW_US) {
        g->chosen = 0;
        trial_end(c, TRIAL_FAST);
    } else if (++g->candidate == GAP_CANDIDATES) {
        choose(c);
    }
}

void gap_committed(struct core *c, uint64_t took_us, uint64_t bytes)
{
    struct gap *g = &c->gap;

    if (took_us == 0 || c->checkpoint.phase != CHECKPOINT_IDLE || bytes > COMMIT_BYTES_MAX)
        return;
    if (g->trying) {
        if (g->followed)
            trial_sample(c, took_us);
    } else if (--g->until_trial == 0) {
        g->trying = true;
        g->candidate = g->count = 0;
        g->left = false;
    }
}
