/* map: device range -> newest version.
 *
 * For each image, an ordered set of disjoint byte ranges ("versions"): where the newest
 * answered bytes of that range are, if they are not (only) in the image.  A range that no
 * version covers is in the image.  Inserting cuts what it overlaps, at byte precision.
 *
 * A red-black tree (libbsd's <sys/tree.h>, intrusive) of 64-byte nodes from a pool: inserting
 * never allocates when nodes were reserved before, so a record that is in the journal can
 * always be published.  Not a radix tree or a page table: requests are byte-exact, trims are
 * terabytes long, and images are sparse.
 *
 * No locks here: the owner (core) serialises.  Lengths and offsets in bytes.
 */
#ifndef JOURNAL_MAP_H
#define JOURNAL_MAP_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Instead of a position in the ring: the range reads as zeroes. */
#define MAP_TRIM UINT64_MAX       /* may become a hole */
#define MAP_ZERO (UINT64_MAX - 1) /* must stay allocated */

struct version {
    RB_ENTRY(version) link;
    uint64_t offset; /* in the image */
    uint64_t length; /* > 0 */
    uint64_t lsn;
    /* virtual position in the ring of the byte at offset, or MAP_TRIM, MAP_ZERO */
    uint64_t position;
};

/* Nodes for the maps of all images of one journal. */
struct map_pool {
    struct version *free;   /* chained through link.rbe_left */
    struct map_slab *slabs; /* what was malloc'ed */
    size_t free_count;
    size_t reserved;    /* of the free ones, promised to map_insert calls to come */
    size_t used;        /* in trees */
    size_t limit_nodes; /* used + free never exceeds this */
};

void map_pool_init(struct map_pool *pool, size_t limit_bytes);
void map_pool_destroy(struct map_pool *pool); /* frees all nodes: destroy no map after it */

/* An insertion needs at most this many nodes (the new one, and the right part of a split). */
#define MAP_INSERT_NODES 2

/* Promises nodes for one later map_insert.  0, or -ENOMEM (pool limit or malloc): nothing
 * promised. */
int map_reserve(struct map_pool *pool);
void map_unreserve(struct map_pool *pool); /* takes one promise back */

struct map {
    RB_HEAD(version_tree, version) tree;
    struct map_pool *pool;
    uint64_t payload_bytes; /* of versions that are no trim or zero: for people */
};

void map_init(struct map *map, struct map_pool *pool);

/* Makes [offset, offset+length) this version, using up one promise of map_reserve. length > 0,
 * no overflow.  Cuts or drops what was there. */
void map_insert(struct map *map, uint64_t offset, uint64_t length, uint64_t lsn,
                uint64_t position);

/* First version that ends after `offset` (it covers offset, or lies behind it), or NULL. */
struct version *map_find(struct map *map, uint64_t offset);
struct version *map_next(struct version *v);

/* Removes versions with lsn <= `lsn` among at most `max` versions looked at, from the first
 * one that ends after *cursor. Returns true when the end of the map was reached; else *cursor
 * is where to go on. */
bool map_retire(struct map *map, uint64_t lsn, uint64_t *cursor, size_t max);

bool map_empty(const struct map *map);

#endif
