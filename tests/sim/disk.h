/* disk: a journal or an image of the simulator, with a page cache and a volatile write cache.
 *
 * What a byte is depends on who asks:
 *
 *   cache    what this machine's programs read.  Survives the death of the process (P0).
 *   device   what a read past the page cache shows: the same, except where a failed barrier lost
 *            writes whose pages are clean now (P4)
 *   stable   what is on the medium for certain
 *   view     what is there after one possible power cut
 *
 * A write makes a new version of each 512-byte sector that it touches, and a power cut keeps any
 * version of a sector since the last barrier that covered it, each sector on its own.  A barrier
 * is two events: versions older than its beginning are stable at its end.
 *
 * `view` equals `stable` but for the sectors that disk_view_set changed, so that trying a
 * crash state costs only what differs from the one before.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"

#define DISK_SECTOR 512u

/* One unflushed version of one sector. */
struct disk_version {
    uint64_t sequence;
    uint32_t sector;
    uint32_t older; /* choice of the version before it in the same sector, or DISK_STABLE */
    bool whole;     /* one write covered all of the sector */
    bool bypass;    /* and it has no record in the journal */
    uint8_t bytes[DISK_SECTOR];
};

/* What a sector of the view shows: a version by its index + 1, or one of these. */
#define DISK_STABLE 0u
#define DISK_SCRIBBLED UINT32_MAX

struct disk {
    const char *name; /* for the story */
    size_t size;      /* bytes; the last sector may be a part of one */
    size_t sectors;
    uint8_t *cache, *device, *stable, *view;

    struct disk_version *versions; /* oldest first */
    size_t version_count, version_room;
    uint64_t sequence; /* of the next version */
    uint32_t *newest;  /* [sectors] choice: the newest version, or DISK_STABLE */
    uint32_t *pending; /* sectors that have versions, in the order of their first one */
    size_t pending_count;
    uint32_t *choice;  /* [sectors] what the view shows */
    uint32_t *touched; /* sectors of the view that were set since the last reset */
    size_t touched_count;
    bool *is_touched;  /* [sectors] */
    size_t lost_count; /* sectors that a failed barrier lost since the last eviction */
    bool *lost;        /* [sectors] */
    bool bypass;       /* what is written now has no record */
};

void disk_init(struct disk *disk, const char *name, size_t size);
void disk_destroy(struct disk *disk);

/* Makes bytes stable from the start (a file that was there before). */
void disk_fill(struct disk *disk, size_t offset, const void *bytes, size_t count);

/* Nothing is unflushed: another size, what is new is zero. */
void disk_resize(struct disk *disk, size_t size);

void disk_write(struct disk *disk, size_t offset, const void *bytes, size_t count);
void disk_zero(struct disk *disk, size_t offset, size_t count);
void disk_read(const struct disk *disk, size_t offset, void *bytes, size_t count);

/* A barrier covers what was written before its beginning. */
uint64_t disk_barrier_begin(const struct disk *disk);
void disk_barrier_end(struct disk *disk, uint64_t covered);
/* It failed: of what it covered, some got there, the rest is lost, though the cache shows it. */
void disk_barrier_fail(struct disk *disk, uint64_t covered, struct rng *rng);

/* The page cache forgets its clean pages: reads show the device. */
void disk_drop_cache(struct disk *disk);

void disk_view_set(struct disk *disk, uint32_t sector, uint32_t choice);
/* Something that was never written: a sector that was torn inside. */
void disk_view_scribble(struct disk *disk, uint32_t sector, struct rng *rng);
void disk_view_reset(struct disk *disk);

/* The power is cut and comes back: the view is all that there is. */
void disk_power_cut(struct disk *disk);

#endif
