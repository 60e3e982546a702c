/* core: every decision on which a promise rests, without I/O, threads or clock.
 *
 * The core is asked for a plan (what to write where, what to flush, who may be answered) and
 * told the result.  The engine (engine.h) drives it with threads and real files, the simulator
 * (tests/sim) with a disk that tears, drops and dies, from a seed.  So the code that keeps the
 * promises is the code that is tested.
 *
 * Calls never block.  The caller serialises them: the engine by one mutex (engine->lock), which
 * is not held while a plan is carried out.  Nothing here may be called without it.
 *
 * The life of a record                         file
 *   admit    order, space, lsn, header         append.c
 *   copied   bytes are where kill -9 can't     append.c
 *            take them (P0)
 *   publish  in lsn order: map, answer         append.c
 *   durable  a commit's barrier covered it     commit.c
 *   home     a checkpoint copied it            checkpoint.c
 *   gone     the tail has passed it            checkpoint.c
 *   found    after a crash                     recover.c
 * reads, which see published records:          read.c
 * and large writes without a record:           bypass.c
 *
 * Positions are virtual (format.h); a driver writes byte v at ring_start + v % ring_bytes.
 * No plan ever crosses the end of the ring.
 */
#ifndef JOURNAL_CORE_H
#define JOURNAL_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "format.h"
#include "map.h"

struct core;
struct core_image;

/* ---- life cycle ---- */

/* A core for the journal that sb describes (copied, its image table too).  It is *inert*: it
 * can be fed by recovery, then reads work, but it admits nothing before core_activate.
 * map_bytes_max bounds the map's memory.  0 or -ENOMEM. */
int core_create(struct core **out, const struct superblock *sb, size_t map_bytes_max);
void core_destroy(struct core *c); /* no append, commit, read or step may be outstanding */

uint64_t core_seed(const struct core *c);

/* An image of the table by id, or NULL. */
struct core_image *core_image_find(struct core *c, uint32_t id);

/* Adds an image (entry->id is chosen here) or, if its uuid is in the table, replaces what the
 * table says about it.  Takes effect on disk with the next superblock (core_activate's,
 * usually). NULL with *error set: -ENOSPC (table full), -ENOMEM. */
struct core_image *core_image_add(struct core *c, const struct image_entry *entry, int *error);

/* Gives the place of an image that has no record in the ring to another one, with a new id.
 * False: it may have one. */
bool core_image_reuse(struct core *c, struct core_image *image,
                      const struct image_entry *entry);

/* Drops an image and every version of it from the map and the table (nbdjournal forget).  Its
 * records in the ring are skipped by recovery from then on, because the table no longer knows
 * the id. */
void core_image_drop(struct core *c, struct core_image *image);
const struct image_entry *core_image_entry(const struct core_image *image);
/* One after the other; NULL before the first and behind the last. */
struct core_image *core_image_next(struct core *c, struct core_image *image);
/* Bytes of it whose newest version is in the journal only. */
uint64_t core_image_dirty_bytes(const struct core_image *image);
/* Bytes of it that checkpoints have written. */
uint64_t core_image_home_bytes(const struct core_image *image);
/* Nothing waits for it: all of its changes are in the image, and durable there; it is not lost. */
bool core_image_is_home(const struct core *c, const struct core_image *image);

/* ---- superblock writes ---- */

/* What to write: `bytes` (bytes_count long, owned by the plan) at file offset `offset`, then
 * one barrier of the journal.  At most one is under way (the core refuses a second: -EBUSY). */
struct super_plan {
    uint64_t offset;
    uint8_t *bytes;
    size_t bytes_count;
    uint64_t generation;
    struct ring_mark tail; /* becomes the durable tail when it succeeded */
    bool clean;
};

/* First writable open after a start.  Before it the driver must have made everything that
 * recovery saw durable (one barrier of the journal that succeeded: P0's "answered is not
 * durable").  Plans the superblock with the new epoch; when it is durable core_super_end lets
 * core_epoch_begin go on.  0, -EBUSY, -ENOMEM, -EIO (aborted). */
int core_activate(struct core *c, uint64_t now_us, struct super_plan *plan);

/* Same, for a superblock without any other reason (image table changed). */
int core_super_begin(struct core *c, uint64_t now_us, struct super_plan *plan);

/* The write and the barrier succeeded (error 0) or one of them failed (-errno): then the
 * journal aborts. Frees plan->bytes. */
void core_super_end(struct core *c, struct super_plan *plan, int error);

/* Gives up the records that recovery was told to leave out by to_lsn (nbdjournal replay --to).
 * After core_activate is durable, instead of core_epoch_begin; then a checkpoint with `clean`
 * makes it final, and until that is durable a crash brings the records back.  0, -EOVERFLOW (no
 * lsns are left). */
int core_cut(struct core *c);

/* ---- append ---- */

enum append_state {
    APPEND_IDLE,      /* not admitted */
    APPEND_ADMITTED,  /* has its place; the driver copies, without the lock */
    APPEND_COPIED,    /* in page cache (or further): survives kill -9 */
    APPEND_PUBLISHED, /* it and all before it are copied: visible, may be answered */
    APPEND_FAILED,    /* the journal aborted */
};

/* A range of an image that a change is going to take: see bypass.c.  Memory is the caller's. */
struct claim {
    TAILQ_ENTRY(claim) link;
    struct core_image *image;
    uint64_t offset, length;
};

/* One record on its way.  Memory is the caller's (a stack frame) and must live until state is
 * PUBLISHED or FAILED. */
struct append {
    TAILQ_ENTRY(append) link;
    enum append_state state;
    const struct claim *claim; /* NULL, or its range's, granted: set before admission */
    struct core_image *image;
    struct record record;
    /* to write at virtual record.position, payload right behind it */
    uint8_t header[FORMAT_RECORD_BYTES];
    /* write pad_header at pad_position first (end of the ring) */
    bool has_pad;
    uint64_t pad_position;
    uint8_t pad_header[FORMAT_RECORD_BYTES];
};

/* Admits a change of an image: gives it lsn and place, in this order, for ever (P2). kind
 * WRITE, TRIM or ZERO; [offset, offset+length) inside the image (checked by the caller),
 * length >= 1; for WRITE length <= core_atomic_max and payload_sum = format_sum of the bytes
 * (computed before, without the lock).
 *   0          admitted: copy, then core_append_copied
 *   -EAGAIN    no space now: wait until core_space_generation changes, or the journal aborts,
 *              then try again.
 *              With -EAGAIN somebody must be running a checkpoint (core_checkpoint_wanted
 *              says so), or lead a commit (core_commit_due).
 *   -EBUSY     its range is claimed: claim it too, wait until that is granted, try again
 *   -ENOSPC    or another error of this image's checkpoint: no space and the image can't be
 *              written
 *   -EIO       the journal has aborted, or the disk is lost (P4)
 *   -ENOMEM    map nodes */
int core_append_admit(struct core *c, struct append *a, struct core_image *image,
                      enum record_kind kind, uint16_t flags, uint64_t offset, uint64_t length,
                      uint64_t payload_sum, uint64_t now_us);

/* The EPOCH record, once, after core_activate succeeded and before anything else is admitted.
 * -EAGAIN: the ring is too full for it: run a whole checkpoint first (it needs no append),
 * then again. */
int core_epoch_begin(struct core *c, struct append *a, uint64_t now_us);

/* Header(s) and payload were written (error 0), or not (-errno: the journal aborts, every
 * append fails). Publishes this record and others behind it as far as they are complete. */
void core_append_copied(struct core *c, struct append *a, int error);

/* Nothing more is admitted before a commit. */
bool core_commit_due(const struct core *c);

uint32_t core_atomic_max(const struct core *c);

/* Changes whenever space was freed or waiting makes no more sense. */
uint64_t core_space_generation(const struct core *c);

/* Published bytes that were not yet submitted to the disk: true and a range [*from, *to) of
 * virtual positions, whole sectors, not crossing the ring's end, when there are enough of them
 * (DESIGN 5.8: a flush then finds little left).  The caller calls storage_submit without the
 * lock, then core_submit_end.  One at a time.  Whoever publishes asks until it is false. */
bool core_submit_begin(struct core *c, uint64_t *from, uint64_t *to);
void core_submit_end(struct core *c, int error); /* -errno: the journal aborts */

/* Staging (staging.h) of `bytes` in all, of which half may be not submitted, under this boot
 * id, made by this user: goes into core_activate's superblock, until a clean stop.  bytes 0: none, no bound.
 * Before core_activate. core_atomic_max is at most an eighth of it. */
void core_staging_set(struct core *c, uint64_t bytes, const uint8_t boot[FORMAT_UUID_BYTES],
                      uint32_t uid);

/* ---- bypass: large writes that go straight to the image (data=ordered, bypass.c) ---- */

/* Queues a claim of [offset, offset+length), length >= 1.  Granted: no claim ahead of it overlaps.
 * Changes with core_claim_end and core_bypass_end.  Who holds one that is granted waits for
 * nothing but the disk and space in the ring. */
void core_claim_begin(struct core *c, struct claim *claim, struct core_image *image,
                      uint64_t offset, uint64_t length);
bool core_claim_granted(const struct core *c, const struct claim *claim);
void core_claim_end(struct core *c, struct claim *claim);

/* May this range be written straight to the image, without a record?  The claim is granted.
 *   0     write it to the image, without the lock, then core_bypass_end
 *   1     no: end the claim and journal it
 *   -EIO  the journal has aborted, or the disk is lost (P4): end the claim */
int core_bypass_begin(struct core *c, struct claim *claim);
/* It was written (error 0), or not, or in part (-errno).  Ends the claim.
 *   0     answer
 *   1     journal it
 *   -EIO  the disk was lost meanwhile */
int core_bypass_end(struct core *c, struct claim *claim, int error);

/* What a FLUSH of this image received now must wait for besides the commit (P1): 0 nothing, else
 * until core_image_flush_check of it is not -EAGAIN: 0, or -EIO (P4: the disk is lost). */
uint64_t core_image_flush_target(const struct core_image *image);
int core_image_flush_check(const struct core_image *image, uint64_t target);

/* Around *every* barrier of an image, those of STEP_FLUSH_IMAGE and STEP_COPY too (before step_end),
 * and around whatever else is told of a failed writeback (then with covers 0, if it is no barrier).  0, or -EBUSY: one is under
 * way, wait for its end.  After an error the disk may be lost. */
int core_image_flush_begin(struct core_image *image, uint64_t *covers);
void core_image_flush_end(struct core *c, struct core_image *image, uint64_t covers, int error);
bool core_image_flush_is_busy(const struct core_image *image);

/* Bypassed data is gone: changes and flushes of this image fail until the next start. */
bool core_image_is_lost(const struct core_image *image);
/* A bypassing write is under way, not durable, or lost. */
bool core_image_has_undurable(const struct core_image *image);

/* ---- commit ---- */

/* The lsn that a FLUSH of this image received now must make durable (P1): 0 if the image has
 * nothing newer than the durable mark: answer at once. */
uint64_t core_flush_target(const struct core *c, const struct core_image *image);
uint64_t core_commit_all_target(const struct core *c); /* the same for all images */

/* Of the oldest record that is not home; behind it nothing else is needed. */
uint64_t core_tail_position(const struct core *c);

uint64_t core_durable_lsn(const struct core *c);
uint64_t core_published_lsn(const struct core *c);

/* All is in the images: no read needs the map, until the next change is admitted. */
bool core_drained(const struct core *c);

/* What it says to those who wait: 0 durable: answer; -EAGAIN not yet; -EIO aborted (P4).  */
int core_durable_check(const struct core *c, uint64_t lsn);

struct commit {
    uint64_t target_lsn;
    struct ring_mark mark; /* where the ring is sealed */
    uint64_t gap_bytes;    /* the last ones before it are left out (gap.c) */
    bool has_seal;
    struct append seal; /* a record like others: write its header, core_append_copied */
    uint64_t took_us;   /* for core_commit_end, from the driver: 0 is not known */
};

/* Starts a commit of everything admitted so far.
 *   0        the caller leads: write the seal if any, core_append_copied(&seal); when
 *            core_commit_ready: while core_commit_submit gives a range, storage_submit it
 *            without the lock and core_submit_end; then, without the lock, one barrier of the
 *            journal; then core_commit_end
 *   1        nothing to commit
 *   -EBUSY   one is in flight (only one at a time: DESIGN 5.17)
 *   -EIO     aborted */
int core_commit_begin(struct core *c, struct commit *commit, uint64_t now_us);
/* All that the commit covers is published and no submission is under way (or the journal
 * aborted).  Changes with core_append_copied and core_submit_end. */
bool core_commit_ready(const struct core *c, const struct commit *commit);
/* The next range [*from, *to) to submit before the barrier; false when all is submitted (or the
 * journal aborted).  To be called under the same hold of the lock as core_commit_ready or the
 * core_submit_end before it. */
bool core_commit_submit(struct core *c, const struct commit *commit, uint64_t *from,
                        uint64_t *to);
void core_commit_end(struct core *c, struct commit *commit, int error);

/* ---- read ---- */

enum read_source { READ_IMAGE, READ_JOURNAL, READ_TRIMMED, READ_ZERO };

struct read_segment {
    enum read_source source;
    uint64_t offset; /* in the image */
    uint64_t length;
    uint64_t position; /* READ_JOURNAL: virtual position */
};

/* Journal bytes that somebody reads: neither their place in the ring nor their slot in staging
 * is reused.  So who holds one may wait for nothing but the disk. */
struct read_pin {
    TAILQ_ENTRY(read_pin) link;
    uint64_t number;             /* grows with age: the oldest is the smallest */
    uint64_t tail_position;      /* of its time */
    uint64_t published_position; /* of its time */
};

/* Segments in order, without gaps, covering the request.  Pinned from begin to end. */
struct read_plan {
    struct read_pin pin;
    struct read_segment *segments; /* inline_segments, or malloc'ed */
    size_t count, room;
    struct read_segment inline_segments[32];
};

/* 0 or -ENOMEM.  length >= 1, inside the image. */
int core_read_begin(struct core *c, const struct core_image *image, uint64_t offset,
                    uint64_t length, struct read_plan *plan);
void core_read_end(struct core *c, struct read_plan *plan);

/* ---- checkpoint ---- */

#ifndef CHECKPOINT_SEGMENTS /* small ones: the simulator's core, so that limits are met */
#define CHECKPOINT_SEGMENTS 1024
#define CHECKPOINT_BYTES (4u << 20)
#endif

enum checkpoint_step_kind {
    STEP_COMMIT,  /* commit everything published (as a flush would), then step_end */
    STEP_READERS, /* wait until core_checkpoint_readers_gone, then step_end */
    /* bytes [load_from, load_to) of the ring will soon be copied: a hint to read them in one go */
    STEP_LOAD,
    STEP_COPY,        /* carry out the segments (image order), then step_end */
    STEP_FLUSH_IMAGE, /* a barrier of image, then step_end */
    STEP_CARRY,  /* segments[0] of an image that can't be written now: see core_carry_begin */
    STEP_RETIRE, /* nothing to do: step_end at once (bounded work under the lock) */
    STEP_SUPER,  /* write super, barrier of the journal, then step_end */
    STEP_DONE,   /* the checkpoint is complete; no step_end */
};

struct checkpoint_segment {
    /* READ_JOURNAL: copy; READ_TRIMMED: punch or zero; READ_ZERO: zero, keep allocated */
    enum read_source source;
    uint64_t offset;
    uint64_t length;
    uint64_t position;
};

struct checkpoint_step {
    enum checkpoint_step_kind kind;
    struct core_image *image; /* COPY, FLUSH_IMAGE */
    /* COPY: segments, at most CHECKPOINT_BYTES of READ_JOURNAL in all; */
    size_t count;
    struct checkpoint_segment segments[CHECKPOINT_SEGMENTS]; /*  a longer one comes in pieces */
    /* COPY: how to see to it that others don't wait for more than this step: by a barrier, or only
     * by waiting until it is written */
    bool barrier;
    uint64_t load_from, load_to; /* LOAD: virtual, at most CHECKPOINT_BYTES */
    struct super_plan super;     /* SUPER */
    uint64_t took_us;            /* COPY: for step_end, from the driver; 0 is not known */
    int error;                   /* DONE: 0, or why an image was left out (-errno) */
};

/* Should one start now: the ring is more than half full, or someone waits for space. */
bool core_checkpoint_wanted(const struct core *c);
/* Somebody waits for what the running one does, since its last step. */
bool core_checkpoint_urgent(const struct core *c);
/* Is there anything to do at all (an idle disk drains). */
bool core_checkpoint_possible(const struct core *c);

/* Begins a checkpoint (only one at a time).  `clean`: a stop; nothing is admitted any more,
 * and if the ring is empty at the end the superblock says CLEAN.  0, -EBUSY, -EIO. */
int core_checkpoint_begin(struct core *c, bool clean);

/* The next step of the running checkpoint.  now_us as in core_activate. */
int core_checkpoint_next(struct core *c, struct checkpoint_step *step, uint64_t now_us);

/* For STEP_CARRY: read the bytes of segments[0] (READ_JOURNAL) from the ring, then this, with
 * their checksum (0 for others).
 *   0        appends them again: copy the record, core_append_copied, then step_end with its
 *            result
 *   1        a newer version has come: step_end with 0
 *   -EAGAIN  not now: wait for a change of published lsn or space generation, and call again
 *   else     no room: step_end with it */
int core_carry_begin(struct core *c, struct checkpoint_step *step, struct append *a,
                     uint64_t payload_sum, uint64_t now_us);

/* Result of a step, 0 or -errno.  An image that can't be written or flushed is left out of this
 * checkpoint; the next one writes everything again that was not flushed (P4).  An error of
 * STEP_SUPER or STEP_COMMIT aborts the journal. */
void core_checkpoint_step_end(struct core *c, struct checkpoint_step *step, int error);

bool core_checkpoint_readers_gone(const struct core *c);

/* ---- prewrite: the ring's first lap (DESIGN 5.4) ---- */

/* A piece [*from, *from + *count) of the ring that nobody has used yet: write zeroes there,
 * then core_prewrite_end.  False: all is written, or inactive.  Admission stays out of the
 * piece meanwhile (-EAGAIN). */
bool core_prewrite_begin(struct core *c, uint64_t bytes_max, uint64_t *from, uint64_t *count);
void core_prewrite_end(struct core *c, int error);

/* ---- recovery ---- */

enum recovery_verdict {
    RECOVERY_EMPTY,   /* nothing to replay */
    RECOVERY_REPLAY,  /* records were found; the journal ended in a clean or torn tail */
    RECOVERY_DAMAGED, /* a record that was durable does not prove itself (P6) */
};

struct recovery_result {
    enum recovery_verdict verdict;
    uint64_t records;           /* changes of images found: WRITE, TRIM, ZERO */
    uint64_t payload_bytes;     /* of them */
    uint64_t live_bytes;        /* of the ring, between tail and cut */
    struct ring_mark cut;       /* last valid record: position is its end, not rounded */
    uint64_t first_us, last_us; /* wall clock of first and last change; 0 if none */
    /* TORN or DAMAGED: virtual position of the first broken record, else 0 */
    uint64_t lost_position;
    bool torn;             /* valid records were seen behind the cut, or half a record at it */
    uint64_t durable_seen; /* DAMAGED: the lsn that a later record says was durable */
    uint64_t witness_position; /* DAMAGED: where that record is */
};

struct recovery;

/* Called for each valid record in order, after its payload was verified.  For tools; may be
 * NULL. A return < 0 ends the recovery with it. */
typedef int recovery_visit(void *opaque, const struct record *record);

/* Scans the ring of an inert core and rebuilds its map.  Stop at `to_lsn` (inclusive;
 * UINT64_MAX: all). 0, -ENOMEM. */
int recovery_create(struct recovery **out, struct core *c, uint64_t to_lsn,
                    recovery_visit *visit, void *opaque);

/* Bytes wanted next: *count bytes (a multiple of the sector, at most bytes_max, which is at
 * least 64 KiB) at virtual *position. False: recovery is complete. */
bool recovery_next(struct recovery *r, size_t bytes_max, uint64_t *position, size_t *count);

/* The bytes that were asked for.  0, -ENOMEM (map), or what visit returned. */
int recovery_feed(struct recovery *r, const uint8_t *bytes, size_t count);

/* Ends it; the core keeps the map, head and durable mark (unless DAMAGED: then the core must
 * be destroyed).  Everything up to the cut counts as published, and as durable: the driver
 * owes the barrier before core_activate. */
void recovery_finish(struct recovery *r, struct recovery_result *result);

/* ---- numbers, for people ---- */

struct core_stats {
    uint64_t ring_bytes, used_bytes; /* used: head - durable tail */
    uint64_t head_position;          /* virtual: of the next record */
    uint64_t last_lsn, published_lsn, durable_lsn;
    uint32_t epoch;
    uint64_t commits, commit_records, empty_flushes;
    uint64_t checkpoints, home_bytes, home_segments, zeroed_bytes;
    uint64_t superseded; /* versions that a newer one replaced before they went home */
    /* large writes: straight to an image; journaled since a record overlapped */
    uint64_t bypass_writes, bypass_bytes, bypass_journaled;
    uint64_t map_nodes;
    bool aborted;
    int image_error; /* of the last checkpoint, 0 or -errno */
};
void core_stats_get(const struct core *c, struct core_stats *stats);

/* Aborts the journal (P4): every admit and flush fails from now on, reads go on. */
void core_abort(struct core *c, int error);
bool core_aborted(const struct core *c);

#endif
