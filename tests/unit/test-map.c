/* map: against a model that keeps a version for every byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "map.h"

#define BYTES 512u

struct model {
    uint64_t lsn[BYTES]; /* 0: in the image */
    uint64_t position[BYTES];
};

static void model_insert(struct model *m, uint64_t offset, uint64_t length, uint64_t lsn,
                         uint64_t position)
{
    for (uint64_t i = 0; i < length; i++) {
        m->lsn[offset + i] = lsn;
        m->position[offset + i] = position >= MAP_ZERO ? position : position + i;
    }
}

/* Every byte of the map is that of the model, versions are disjoint and sorted, map_find
 * agrees. */
static void compare(struct map *map, const struct model *m)
{
    uint64_t upto = 0, payload = 0;
    size_t nodes = 0;

    for (struct version *v = map_find(map, 0); v != NULL; v = map_next(v)) {
        assert_true(v->length > 0);
        assert_true(v->offset >= upto);
        for (; upto < v->offset; upto++)
            assert_int_equal(m->lsn[upto], 0);
        for (; upto < v->offset + v->length; upto++) {
            uint64_t at =
                v->position >= MAP_ZERO ? v->position : v->position + (upto - v->offset);
            assert_int_equal(m->lsn[upto], v->lsn);
            assert_int_equal(m->position[upto], at);
            assert_ptr_equal(map_find(map, upto), v);
        }
        payload += v->position < MAP_ZERO ? v->length : 0;
        nodes++;
    }
    for (; upto < BYTES; upto++)
        assert_int_equal(m->lsn[upto], 0);
    assert_int_equal(map->pool->used, nodes);
    assert_int_equal(map->payload_bytes, payload);
}

static void test_random(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 40; seed++) {
        struct map_pool pool;
        struct map map;
        struct model model = {0};
        uint64_t lsn = 0;

        srandom(seed);
        map_pool_init(&pool, SIZE_MAX);
        map_init(&map, &pool);
        for (int step = 0; step < 1000; step++) {
            if (random() % 10 == 0) {
                uint64_t old = lsn > 0 ? random() % lsn : 0, cursor = 0;
                while (!map_retire(&map, old, &cursor, 1 + random() % 8))
                    ;
                for (unsigned i = 0; i < BYTES; i++) {
                    if (model.lsn[i] <= old)
                        model.lsn[i] = model.position[i] = 0;
                }
            } else {
                uint64_t offset = random() % BYTES;
                uint64_t length = 1 + random() % (BYTES - offset);
                uint64_t position = random() % 4 == 0   ? MAP_TRIM
                                    : random() % 4 == 0 ? MAP_ZERO
                                                        : (uint64_t)random();
                if (random() % 2)
                    length = 1 + length % 16 % (BYTES - offset);
                lsn++;
                assert_int_equal(map_reserve(&pool), 0);
                map_insert(&map, offset, length, lsn, position);
                model_insert(&model, offset, length, lsn, position);
            }
            compare(&map, &model);
        }
        assert_int_equal(pool.reserved, 0);
        map_pool_destroy(&pool);
    }
}

/* The limit holds, and what was reserved is there. */
static void test_limit(void **state)
{
    struct map_pool pool;
    struct map map;
    unsigned reserved = 0;

    (void)state;
    map_pool_init(&pool, 100 * sizeof(struct version));
    map_init(&map, &pool);
    while (map_reserve(&pool) == 0)
        reserved++;
    assert_int_equal(reserved, 100 / MAP_INSERT_NODES);
    assert_int_equal(map_reserve(&pool), -ENOMEM);
    map_insert(&map, 0, 1000, 1, 0);
    for (unsigned i = 1; i < reserved; i++)
        map_insert(&map, i * 10, 1, 1 + i, i);
    assert_int_equal(pool.reserved, 0);
    assert_true(pool.used <= 100);
    map_pool_destroy(&pool);
}

static void test_edges(void **state)
{
    struct map_pool pool;
    struct map map;
    uint64_t top = (UINT64_C(1) << 63) - 1;

    (void)state;
    map_pool_init(&pool, SIZE_MAX);
    map_init(&map, &pool);
    assert_true(map_empty(&map));
    assert_null(map_find(&map, 0));
    assert_int_equal(map_reserve(&pool), 0);
    map_insert(&map, 0, top, 1, MAP_TRIM); /* the largest image, whole */
    assert_int_equal(map_reserve(&pool), 0);
    map_insert(&map, top - 1, 1, 2, 77); /* its last byte */
    assert_int_equal(map_find(&map, top - 2)->length, top - 1);
    assert_int_equal(map_find(&map, top - 1)->position, 77);
    assert_null(map_find(&map, top));
    map_pool_destroy(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
