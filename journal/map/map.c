/* map: see map.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "map.h"
#include "planted.h"

static int version_compare(const struct version *a, const struct version *b)
{
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function" /* the macro makes more than we call */
RB_GENERATE_INTERNAL(version_tree, version, link, version_compare, static)
#pragma GCC diagnostic pop

_Static_assert(sizeof(struct version) == 64, "a version's memory is stated in the manual");

/* Nodes come in slabs, so that a million of them are not a million mallocs. */
#define SLAB_NODES 1023

struct map_slab {
    struct map_slab *next;
    struct version nodes[SLAB_NODES];
};

void map_pool_init(struct map_pool *pool, size_t limit_bytes)
{
    *pool = (struct map_pool){.limit_nodes = limit_bytes / sizeof(struct version)};
}

void map_pool_destroy(struct map_pool *pool)
{
    while (pool->slabs != NULL) {
        struct map_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    *pool = (struct map_pool){0};
}

static void node_free(struct map_pool *pool, struct version *v)
{
    v->link.rbe_left = pool->free;
    pool->free = v;
    pool->free_count++;
    pool->used--;
}

/* A node that map_reserve promised. */
static struct version *node_take(struct map_pool *pool)
{
    struct version *v = pool->free;
    assert(v != NULL);
    pool->free = v->link.rbe_left;
    pool->free_count--;
    pool->used++;
    return v;
}

static int pool_grow(struct map_pool *pool)
{
    struct map_slab *slab;
    size_t room = pool->limit_nodes - (pool->used + pool->free_count);
    size_t count = room < SLAB_NODES ? room : SLAB_NODES;

    if (count < MAP_INSERT_NODES)
        return -ENOMEM;
    slab = malloc(offsetof(struct map_slab, nodes) + count * sizeof(struct version));
    if (slab == NULL)
        return -ENOMEM;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (size_t i = 0; i < count; i++) {
        slab->nodes[i].link.rbe_left = pool->free;
        pool->free = &slab->nodes[i];
    }
    pool->free_count += count;
    return 0;
}

int map_reserve(struct map_pool *pool)
{
    while (pool->free_count - pool->reserved < MAP_INSERT_NODES) {
        int r = pool_grow(pool);
        if (r < 0)
            return r;
    }
    pool->reserved += MAP_INSERT_NODES;
    return 0;
}

void map_unreserve(struct map_pool *pool)
{
    assert(pool->reserved >= MAP_INSERT_NODES);
    pool->reserved -= MAP_INSERT_NODES;
}

void map_init(struct map *map, struct map_pool *pool)
{
    RB_INIT(&map->tree);
    map->pool = pool;
    map->payload_bytes = 0;
}

struct version *map_find(struct map *map, uint64_t offset)
{
    struct version *v = RB_ROOT(&map->tree), *best = NULL;

    while (v != NULL) {
        if (offset < v->offset + v->length) {
            best = v;
            v = RB_LEFT(v, link);
        } else {
            v = RB_RIGHT(v, link);
        }
    }
    return best;
}

struct version *map_next(struct version *v)
{
    return version_tree_RB_NEXT(v);
}

bool map_empty(const struct map *map)
{
    return RB_EMPTY(&map->tree);
}

static bool is_payload(uint64_t position)
{
    return position < MAP_ZERO;
}

/* `bytes` of v are in no version any more. */
static void payload_gone(struct map *map, const struct version *v, uint64_t bytes)
{
    if (is_payload(v->position))
        map->payload_bytes -= bytes;
}

/* Moves the start of v to `offset`, which lies inside it.  The order in the tree stays:
 * versions are disjoint. */
static void version_cut_front(struct version *v, uint64_t offset)
{
    uint64_t cut = offset - v->offset;
    v->offset += cut;
    v->length -= cut;
    if (is_payload(v->position) && !PLANTED(24)) /* the rest shows the bytes that were cut */
        v->position += cut;
}

void map_insert(struct map *map, uint64_t offset, uint64_t length, uint64_t lsn,
                uint64_t position)
{
    uint64_t end = offset + length;
    struct version *v, *next, *made;

    assert(length > 0 && end > offset);
    map_unreserve(map->pool);

    v = map_find(map, offset);
    if (v != NULL && v->offset < offset) { /* sticks out to the left */
        uint64_t v_end = v->offset + v->length;

        payload_gone(map, v, (v_end > end ? end : v_end) - offset);
        if (v_end > end) { /* and to the right: split */
            made = node_take(map->pool);
            *made = *v;
            version_cut_front(made, end);
            v->length = offset - v->offset;
            RB_INSERT(version_tree, &map->tree, made);
        } else {
            v->length = offset - v->offset;
        }
        v = map_next(v);
    }
    for (; v != NULL && v->offset < end; v = next) {
        next = map_next(v);
        if (v->offset + v->length > end) {
            payload_gone(map, v, end - v->offset);
            version_cut_front(v, end);
            break;
        }
        payload_gone(map, v, v->length);
        RB_REMOVE(version_tree, &map->tree, v);
        node_free(map->pool, v);
    }
    made = node_take(map->pool);
    made->offset = offset;
    made->length = length;
    made->lsn = lsn;
    made->position = position;
    if (is_payload(position))
        map->payload_bytes += length;
    RB_INSERT(version_tree, &map->tree, made);
}

bool map_retire(struct map *map, uint64_t lsn, uint64_t *cursor, size_t max)
{
    struct version *v = map_find(map, *cursor), *next;

    for (; v != NULL && max > 0; v = next, max--) {
        next = map_next(v);
        *cursor = v->offset + v->length;
        if (v->lsn <= lsn || PLANTED(11)) { /* newer versions go as well */
            payload_gone(map, v, v->length);
            RB_REMOVE(version_tree, &map->tree, v);
            node_free(map->pool, v);
        }
    }
    return v == NULL || PLANTED(32); /* some entries point to space that is reused */
}
