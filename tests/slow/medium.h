/* medium: how long a disk takes, in simulated time.
 *
 * No bytes, no clock, no thread: requests come with the time of their arrival, answers go with the
 * time at which a disk of this kind would give them.  slowfs.c makes a real (slow) disk of it,
 * test-medium.c looks at the model itself.
 *
 *   requests --> cache --> channels --> medium
 *
 * A write is answered when it is in the write cache, and drained to the medium later; when the
 * cache is full, or there is none, when it is on the medium.  A flush is answered when every write
 * that came before it is on the medium, and flush_us later; flushes that wait together are served
 * together.  Reads come from the medium.
 *
 * A disk with a head has one channel.  To get from one place to another it seeks (settle, and the
 * square root of the distance), then waits until the sector comes by: the angle of a byte is its
 * offset modulo one track, and time turns the platter.  So an append that comes after its
 * predecessor has ended waits for nearly a whole turn, and one that leaves a gap catches the same
 * turn.  Of the oldest MEDIUM_WINDOW requests the nearest is served, reads first unless a flush
 * waits, and none waits longer than MEDIUM_PATIENCE_NS for nearer ones.  What is read on in sequence comes out of the drive's own
 * read-ahead.
 *
 * Others draw the time of each request around a median; the transfers share one bus.
 */
#ifndef TESTS_SLOW_MEDIUM_H
#define TESTS_SLOW_MEDIUM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define MEDIUM_WINDOW 64
#define MEDIUM_PATIENCE_NS UINT64_C(1000000000)
#define MEDIUM_NEVER UINT64_MAX

struct medium_profile {
    const char *name, *text;
    unsigned channels;
    bool has_head;
    bool heavy_tail; /* 1 % of all take 5 to 20 times as long, 0.1 % 50 times */
    uint64_t cache_bytes;
    double bytes_per_ns;                /* of the medium or the bus */
    double read_us, write_us, flush_us; /* without a head */
    double settle_us, stroke_us;        /* seek: settle + stroke * sqrt(share of the disk) */
    double turn_us;
};

/* The last one has name NULL.  The first one takes no time. */
extern const struct medium_profile medium_profiles[];
const struct medium_profile *medium_profile_find(const char *name); /* or NULL */

enum medium_kind { MEDIUM_READ, MEDIUM_WRITE, MEDIUM_FLUSH };

/* The caller's, until medium_answered returns it. */
struct medium_request {
    TAILQ_ENTRY(medium_request) link;
    enum medium_kind kind;
    uint64_t offset, length;
    uint64_t answered_ns;
    uint64_t number; /* FLUSH: of the last request before it */
};

struct medium_stats {
    uint64_t reads, writes, flushes, read_bytes, written_bytes;
    uint64_t busy_ns;      /* of all channels */
    uint64_t cached_bytes; /* now */
};

struct medium;

struct medium *medium_create(const struct medium_profile *profile, uint64_t size,
                             uint64_t seed);
void medium_destroy(struct medium *m); /* requests that are in it are forgotten */

/* now_ns never goes back, over all calls. */
void medium_submit(struct medium *m, struct medium_request *r, uint64_t now_ns);

/* One that is answered by now, in the order of their times; or NULL. */
struct medium_request *medium_answered(struct medium *m, uint64_t now_ns);

/* When something happens next of itself, or MEDIUM_NEVER. */
uint64_t medium_next_ns(const struct medium *m);

/* Nothing waits, and the cache is drained. */
bool medium_idle(const struct medium *m);

/* Another profile: the cache is drained and everything that waits is answered now, and the numbers
 * begin anew. */
void medium_change(struct medium *m, const struct medium_profile *profile, uint64_t now_ns);

const struct medium_stats *medium_stats_get(const struct medium *m);

#endif
