/* model: the oracle.  What the disks must show, whatever happened.
 *
 * It knows the changes (parts of requests) in the order in which they were admitted, the state
 * of all images after the first K of them, and which of them were promised to whom:
 *
 *   durable   after a power cut K is at least this (P1)
 *   answered  after kill -9 K is at least this (P0)
 *   floor     for each byte, the newest version that a read may not fall behind (P7)
 *
 * A change that bypassed the journal has no place in that order.  It is *loose* until a flush
 * promised it: of each of its bytes a power cut may leave it or what was there before, and K says
 * nothing about it; kill -9 takes it only as long as it is not answered.
 *
 * Each change writes bytes of its own (model_byte), so a state tells which K it belongs to and
 * a byte which change it came from.  A crash to K takes back the changes behind K: nothing of
 * them may ever be seen again.
 *
 * Changes are numbered from 1; number 0 is what the images held at the beginning.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

#define MODEL_IMAGES 3
#define MODEL_STATES 64 /* states kept at a time */

struct change {
    unsigned image;
    enum record_kind kind;
    uint64_t offset, length;
    uint64_t lsn;
    uint64_t content; /* of a WRITE: names its bytes; never used twice */
    bool answered;
    /* Without a record; lsn: the last one that was given before it. */
    bool bypass;
    bool former;  /* of a life before: what of it was there then stays */
    bool covered; /* a barrier that succeeded began after it had ended */
    bool failed;  /* its write ended with an error */
    bool
        doubtful; /* and a barrier after it: what a read shows of it may be gone after a crash */
    uint64_t end_stamp;    /* model.stamp when its write ended; 0: under way */
    uint64_t answer_stamp; /* and when it was answered */
};

struct model {
    unsigned image_count;
    size_t image_size[MODEL_IMAGES];
    size_t image_at[MODEL_IMAGES]; /* where it begins in a state */
    size_t state_bytes;            /* a state: all images, one behind the other */

    struct change *changes; /* [0] is unused */
    uint32_t count, room;   /* of changes, without [0] */
    uint32_t durable, answered;
    uint32_t image_answered[MODEL_IMAGES];
    uint64_t bounds; /* moves when durable or answered do */
    bool cache_lost; /* until the next life */
    uint64_t content_next;

    uint8_t *base;          /* the state after `durable` changes */
    uint32_t *base_version; /* and which change each byte is from */
    uint32_t *floor;
    uint32_t *shown; /* what each byte was from when this life began */

    bool ever_bypassed;
    uint32_t *loose; /* numbers, oldest first */
    size_t loose_count, loose_room;
    uint64_t stamp;
    bool
        image_uncovered[MODEL_IMAGES]; /* no barrier in this life, and one before used bypass */
    bool image_lost[MODEL_IMAGES]; /* in this life: a barrier failed that loose ones needed */

    uint8_t *states[MODEL_STATES]; /* state K is in slot K % MODEL_STATES, if it is there */
    uint32_t state_of[MODEL_STATES];

    struct change *gone; /* changes that crashes took back, for the story */
    size_t gone_count, gone_room;
};

void model_init(struct model *model, unsigned image_count, const size_t image_size[]);
void model_destroy(struct model *model);

/* Bytes of content `content` that belong at image offset `offset`.  Never zero. */
void model_content(uint64_t content, uint64_t offset, uint8_t *bytes, size_t count);

/* A change was admitted; its number is returned. */
uint32_t model_admit(struct model *model, const struct change *change);
void model_answer(struct model *model, uint32_t number);

/* P1: what a FLUSH of this image that is received now must make durable, and its answer. */
uint32_t model_flush_received(const struct model *model, unsigned image);
void model_flush_answered(struct model *model, uint32_t number);

/* A bypassing write has ended; or it failed, and nobody is promised anything of it. */
void model_bypass_ended(struct model *model, uint32_t number, bool ok);
/* A barrier of an image, begun when the stamp was this: lost, if it failed and something loose
 * needed it. */
void model_image_barrier(struct model *model, unsigned image, uint64_t begun, bool ok);
/* P1: and what bypassed the journal and was answered when the stamp was this. */
void model_image_flushed(struct model *model, unsigned image, uint64_t received);

/* The page cache can't be trusted any more: only what is durable must survive the process.  (The
 * journal has aborted.) */
void model_cache_lost(struct model *model);

/* All images after the first k changes; durable <= k <= count.  Those that bypassed the journal are
 * all in it. */
const uint8_t *model_state(struct model *model, uint32_t k);

/* May these bytes be shown after a crash that left k changes?  Returns the first byte that may not,
 * or model->state_bytes. */
size_t model_judge(struct model *model, uint32_t k, bool power, const uint8_t *shown);

/* How many changes have an lsn of at most `lsn`. */
uint32_t model_count_upto(const struct model *model, uint64_t lsn);

/* Everything behind k is gone, but what bypassed the journal and is in `shown`, which was judged.
 * `durable` false: it is what a restarted server shows, but the disk need not hold it yet. */
void model_crash(struct model *model, uint32_t k, bool durable, const uint8_t *shown);

/* After a clean stop, everything durable: an image has another size.  What is new is zero, as of a
 * change that got `lsn`. */
void model_resize(struct model *model, unsigned image, size_t size, uint64_t lsn);

/* A read, in two events: what it may not fall behind, and what it returned.  `floors` has room
 * for one number a byte.  The check returns the first wrong byte, or count. */
void model_read_begin(const struct model *model, unsigned image, size_t offset, size_t count,
                      uint32_t *floors);
size_t model_read_end(struct model *model, unsigned image, size_t offset, size_t count,
                      const uint32_t *floors, const uint8_t *bytes);

/* In words: which change a byte may have come from. */
void model_explain(const struct model *model, unsigned image, size_t offset, uint8_t byte,
                   char *words, size_t words_size);

#endif
