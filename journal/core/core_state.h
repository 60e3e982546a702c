/* core_state: what the files of the core share.  Nobody else includes it.
 *
 * All of it is guarded by the caller's one lock (core.h); so no field says so again.
 *
 * Lsns and positions, always in this order:
 *
 *   lsn       tail <= durable <= published <= last (admitted)
 *   position  tail <= durable <= submitted <= published <= head <= tail + ring_bytes
 */
#ifndef JOURNAL_CORE_STATE_H
#define JOURNAL_CORE_STATE_H

#include "core.h"
#include "planted.h"

struct core_image {
    TAILQ_ENTRY(core_image) link;
    struct image_entry entry;
    struct map map;
    uint64_t published_lsn; /* of its newest visible change; 0: none since the start */
    bool copied;            /* a checkpoint wrote to it: flush it */
    uint64_t home_bytes;    /* that checkpoints wrote */
    int failed;             /* -errno: the last checkpoint could not write or flush it */
    bool skip;              /* the running checkpoint has met that */
    bool full; /* failed, and holds as much of the ring as it may: admits nothing */

    uint64_t retired_lsn;    /* versions up to it may have left the map */
    unsigned bypassing;      /* bypassing writes under way */
    uint64_t bypass_ended;   /* how many have ended */
    uint64_t bypass_durable; /* of them, in order of their end */
    bool flushing;           /* a barrier is under way */
    int lost;                /* -errno: a barrier failed that covered bypassed data (P4) */
};

enum core_life {
    CORE_INERT,     /* recovery and reads only */
    CORE_ACTIVATED, /* the new epoch is durable in a superblock; no record of it yet */
    CORE_RUNNING,   /* its EPOCH record is admitted */
    CORE_STOPPED,   /* a CLEAN superblock was written: admits nothing more */
};

enum checkpoint_phase {
    CHECKPOINT_IDLE,
    CHECKPOINT_COMMIT,  /* so that all that is published may go home */
    CHECKPOINT_READERS, /* readers who planned before target was fixed read image ranges we
                           write */
    CHECKPOINT_LOAD,    /* what will be copied comes into memory, in the order of the ring */
    CHECKPOINT_COPY,
    CHECKPOINT_FLUSH, /* the copied images */
    CHECKPOINT_CARRY, /* what an image can't take is appended again, for the tail to pass */
    CHECKPOINT_SUPERSEDING, /* records that replaced what we would have copied must be durable
                             */
    CHECKPOINT_RETIRE,      /* drop from the map what is home */
    CHECKPOINT_SUPER,       /* the new tail */
};

#define CORE_MARKS 32u

/* How fast the running checkpoint goes, and how fast the ring may fill meanwhile (pace.c). */
struct pace {
    uint64_t work, done; /* of LOAD and COPY, in bytes copied or what takes as long */
    double load_cost;    /* of a byte of LOAD, in bytes copied; learned */
    struct pace_spent {
        uint64_t work, us;
    } loading, copying;  /* what the running checkpoint has done, and what it took */
    uint64_t begin_head; /* when that began */
    uint64_t moved;      /* head, from the beginning to the end of the copying, the last time */
    uint64_t free_share; /* so far beyond it nobody is slowed down */
    uint64_t metered;    /* this is given out as the work goes on */
    uint64_t head_max;   /* admission stops here; UINT64_MAX: it does not */
    uint64_t copy_size[2]; /* of a step of COPY, learned; [1]: somebody waits for space */
    uint64_t load_size[2]; /* the same of LOAD */
    uint64_t step_used;    /* of the step that is out */
    bool step_urgent;      /* that one */
    bool waited_for;       /* somebody was held since the step before */
    bool held;             /* somebody was, since this checkpoint began to copy */
    uint64_t commit_us;    /* a commit takes, with no checkpoint beside it; 0: not known */
};

#define GAP_CANDIDATES 6 /* none, and powers of two */
#define GAP_SAMPLES 9

/* What is left out behind a commit (gap.c). */
struct gap {
    uint64_t chosen;
    bool trying;
    unsigned candidate, count; /* trying: which one, and how many of the samples there are */
    uint64_t samples[GAP_SAMPLES];
    uint64_t median_us[GAP_CANDIDATES];
    uint32_t until_trial; /* commits */
    bool left;            /* the commit before left what was intended; */
    bool followed;        /* so that the one in flight tells something about it */
};

struct checkpoint {
    enum checkpoint_phase phase;
    bool clean;                  /* of a clean stop */
    struct ring_mark target;     /* goes home: all versions with lsn <= target.lsn */
    uint64_t pin_limit;          /* READERS: pins with a smaller number must go */
    uint64_t load_from, load_to; /* LOAD: what is left */
    uint64_t awaited_lsn;        /* COMMIT, SUPERSEDING: must be durable */
    struct core_image *image;    /* COPY, FLUSH, RETIRE: where we are */
    uint64_t cursor;             /* COPY, RETIRE: offset in image */
    struct read_pin pin;         /* COPY, CARRY: while a step is out */
    bool pinned;
    bool carry;           /* the tail may pass images that were skipped: they are carried */
    bool carry_failed;    /* there was no room for it */
    uint64_t carried_lsn; /* CARRY: of the version that is out */
    uint64_t carried_bytes;
    uint64_t cursor_next; /* COPY: after the step that is out */
    int lost;             /* SUPER, clean: why the stop is not */
};

struct core {
    struct superblock sb; /* geometry, uuid, and what the last durable superblock said */
    uint64_t seed;
    enum core_life life;
    int error; /* sticky, -errno: the journal has aborted (P4) */
    TAILQ_HEAD(, core_image) images;
    uint32_t image_count;
    struct map_pool pool;

    uint64_t head;     /* virtual position of the next record */
    uint64_t last_lsn; /* admitted */
    uint64_t last_chain;
    uint32_t epoch;                /* of the records that are written now */
    TAILQ_HEAD(, append) inflight; /* admitted and not published, in lsn order */

    TAILQ_HEAD(, claim) claims; /* in order of arrival */

    uint64_t published_lsn;
    uint64_t published_position; /* end of that record */
    uint64_t submitted_position; /* up to here it was handed to storage_submit */
    uint64_t staged_position;    /* submitting has ended up to here */
    bool submit_in_flight;
    uint64_t unsubmitted_max; /* head - staged_position stays below this; 0: no bound */

    struct ring_mark durable; /* end of the last commit */
    bool commit_in_flight;

    struct ring_mark tail;   /* durable in a superblock */
    uint64_t older_tail_lsn; /* of the other superblock, which counts if the newest one rots */
    /* Ends of commits behind the tail, oldest first, a CORE_MARKS-th of the ring apart: where
     * else the tail may go (checkpoint.c, shorten_target). */
    struct ring_mark marks[CORE_MARKS];
    unsigned mark_count;
    TAILQ_HEAD(, read_pin) pins; /* oldest first */
    uint64_t pin_next;
    uint64_t space_generation;
    bool space_wanted; /* somebody was told -EAGAIN since the tail moved */

    uint8_t
        *super_bytes; /* room for one superblock and its table: a checkpoint never allocates */
    struct image_entry *super_table;
    bool super_in_flight;

    struct checkpoint checkpoint;
    struct pace pace;
    struct gap gap;
    uint64_t gap_from, gap_to; /* of the last commit: is not submitted.  Equal: none */
    int image_error;           /* of the last checkpoint attempt, for people */
    bool carry_failed;         /* in it */

    uint64_t prewritten;                    /* of the first lap, bytes from the ring's start */
    uint64_t prewrite_from, prewrite_count; /* the piece that is out; count 0: none */
    bool prewrite_failed;                   /* given up, in this life */
    /* of the map, whose records recovery could still find; the highest of their lsns or more */
    size_t retired_nodes;
    uint64_t retired_lsn;

    struct core_stats stats;
};

/* Always free for the seal of what is admitted (one sector), and for an EPOCH record with its
 * seal. */
static inline uint64_t core_reserve(const struct core *c)
{
    return 3 * (uint64_t)c->sb.sector_bytes;
}

/* With several images, also for carrying what one of them can't take (checkpoint.c): from one commit to
 * the next one, which are a sixteenth of the ring, a record and a pad apart, as much again for seals. */
static inline uint64_t core_carry_reserve(const struct core *c)
{
    uint64_t record = format_span(core_atomic_max(c));

    return c->image_count > 1 ? c->sb.ring_bytes / 8 + 2 * record : 0;
}

static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* The tail moved, or waiting for that makes no sense any more: who waits for space tries
 * again. */
static inline void core_space_changed(struct core *c)
{
    c->space_generation++;
    c->space_wanted = false;
}

/* Is any of it claimed by who is ahead of `own` (NULL: by anybody)?  bypass.c */
bool core_claimed(const struct core *c, const struct core_image *image, uint64_t offset,
                  uint64_t length, const struct claim *own);
void core_pin(struct core *c, struct read_pin *pin);   /* read.c */
void core_unpin(struct core *c, struct read_pin *pin); /* read.c */
uint64_t core_free_space(const struct core *c);        /* append.c */
void core_record_place(struct core *c, struct record *r, uint64_t span,
                       uint8_t out[FORMAT_RECORD_BYTES]); /* append.c */
int core_append_again(struct core *c, struct append *a, struct core_image *image,
                      enum record_kind kind, uint64_t offset, uint64_t length,
                      uint64_t payload_sum, uint64_t now_us); /* append.c */
/* The tail may stand there: if an image fails it may have to go a part of the way. */
void core_remember_mark(struct core *c, const struct ring_mark *mark); /* core.c */
void core_super_plan(struct core *c, struct super_plan *plan, const struct ring_mark *tail,
                     uint32_t state, uint64_t now_us); /* core.c */
void core_submit_range(struct core *c, uint64_t upto, uint64_t *from,
                       uint64_t *to);  /* append.c */
void core_submit_skip(struct core *c); /* append.c */

/* ---- pace.c ---- */

void pace_reset(struct core *c); /* of a new core */
uint64_t pace_head_then(const struct core *c);
/* The checkpoint knows its target and what is to be loaded. */
void pace_begin(struct core *c);
void pace_loaded(struct core *c, const struct checkpoint_step *step);
uint64_t pace_load_size(struct core *c, uint64_t left);
void pace_copied(struct core *c, const struct checkpoint_step *step);
/* All is copied: the rest of the space is for what remains to be done. */
void pace_end(struct core *c);
/* Not so much yet: a checkpoint is under way, and not that far. */
bool pace_holds(struct core *c, uint64_t need);
/* The step has segments[0..count); is there room for this one, too? */
bool pace_step_takes(struct core *c, const struct checkpoint_step *step,
                     const struct checkpoint_segment *s);
/* Else a step only has to be written, not flushed. */
bool pace_needs_barrier(const struct core *c);
void pace_committed(struct core *c, uint64_t took_us);

/* ---- gap.c ---- */

void gap_reset(struct core *c); /* of a new core */
uint64_t gap_after(struct core *c, uint64_t seal_end);
void gap_committed(struct core *c, uint64_t took_us, uint64_t bytes);

#endif
