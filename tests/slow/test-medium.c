/* The model of a slow disk keeps to what it promises, in its own simulated time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "medium.h"

#define DISK (UINT64_C(4) << 30)
#define MS UINT64_C(1000000)

struct disk {
    struct medium *medium;
    uint64_t now_ns;
};

static struct disk disk_of(const char *profile)
{
    struct disk d = {.medium = medium_create(medium_profile_find(profile), DISK, 1)};

    assert_non_null(d.medium);
    return d;
}

/* One request alone; how long it took. */
static uint64_t ask(struct disk *d, enum medium_kind kind, uint64_t offset, uint64_t length)
{
    struct medium_request r = {.kind = kind, .offset = offset, .length = length}, *answered;
    uint64_t begin_ns = d->now_ns;

    medium_submit(d->medium, &r, d->now_ns);
    while ((answered = medium_answered(d->medium, d->now_ns)) == NULL) {
        d->now_ns = medium_next_ns(d->medium);
        assert_true(d->now_ns != MEDIUM_NEVER);
    }
    assert_ptr_equal(answered, &r);
    return d->now_ns - begin_ns;
}

/* A write and a flush; the host thinks for 100 us between two of them. */
static uint64_t ask_durable(struct disk *d, uint64_t offset, uint64_t length)
{
    uint64_t took_ns;

    d->now_ns += 100000;
    took_ns = ask(d, MEDIUM_WRITE, offset, length);
    return took_ns + ask(d, MEDIUM_FLUSH, 0, 0);
}

static uint64_t mean_of_appends(uint64_t gap)
{
    struct disk d = disk_of("hdd");
    uint64_t sum_ns = 0;

    for (unsigned i = 0; i < 200; i++)
        sum_ns += ask_durable(&d, i * (4096 + gap), 4096);
    medium_destroy(d.medium);
    return sum_ns / 200;
}

/* DESIGN 5.16: why the journal leaves gaps on a rotating disk. */
static void an_append_waits_for_a_turn_and_a_gap_catches_it(void **state)
{
    uint64_t plain = mean_of_appends(0), gap = mean_of_appends(65536);

    (void)state;
    assert_in_range(plain, 8 * MS,
                    8 * MS + MS / 2); /* 8.3 ms a turn, less what the host took */
    assert_in_range(gap, MS / 5, MS);
}

static void far_is_later_than_near(void **state)
{
    uint64_t near_ns = 0, far_ns = 0;

    (void)state;
    for (unsigned i = 1; i <= 100; i++) {
        struct disk d = disk_of("hdd");
        uint64_t place = i * UINT64_C(37) * 4096;

        ask(&d, MEDIUM_READ, 0, 4096);
        near_ns += ask(&d, MEDIUM_READ, place, 4096);
        far_ns += ask(&d, MEDIUM_READ, DISK - place, 4096);
        medium_destroy(d.medium);
    }
    assert_in_range(near_ns / 100, 1 * MS, 9 * MS);
    assert_in_range(far_ns / 100, near_ns / 100 + 4 * MS, 16 * MS);
}

/* What is in sequence goes at the medium's rate. */
static void a_stream_pays_for_its_bytes_alone(void **state)
{
    struct disk d = disk_of("hdd");
    uint64_t sum_ns;

    (void)state;
    sum_ns = ask(&d, MEDIUM_READ, 0, 1 << 20);
    for (uint64_t i = 1; i < 64; i++)
        sum_ns += ask(&d, MEDIUM_READ, i << 20, 1 << 20);
    assert_in_range(sum_ns, 447 * MS, 460 * MS); /* 64 MiB at 150 MB/s, and one turn */
    medium_destroy(d.medium);
}

/* Writes into the cache are answered at once; a flush pays for all of them. */
static void a_flush_drains_the_cache(void **state)
{
    struct disk d = disk_of("hdd");
    uint64_t took_ns = 0;

    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        took_ns += ask(&d, MEDIUM_WRITE, i * 7919 % 1000 * (DISK / 1000) / 4096 * 4096, 4096);
    assert_int_equal(took_ns, 0);
    assert_true(medium_stats_get(d.medium)->cached_bytes > 0);
    took_ns = ask(&d, MEDIUM_FLUSH, 0, 0);
    assert_in_range(took_ns, 100 * 2 * MS, 100 * 9 * MS);
    assert_int_equal(medium_stats_get(d.medium)->cached_bytes, 0);
    assert_true(medium_idle(d.medium));
    medium_destroy(d.medium);
}

static void a_full_cache_makes_writes_wait(void **state)
{
    struct disk d = disk_of("hdd");
    uint64_t took_ns = 0;

    (void)state;
    for (uint64_t i = 0; i < 64; i++)
        took_ns += ask(&d, MEDIUM_WRITE, i << 21, 1 << 20);
    assert_true(took_ns > 100 * MS);
    assert_in_range(medium_stats_get(d.medium)->cached_bytes, 1, 32 << 20);
    medium_destroy(d.medium);
}

/* Many waiting requests, sorted by the drive, cost less each than one after the other. */
static void the_nearest_goes_first(void **state)
{
    struct disk d = disk_of("hdd");
    struct medium_request r[64];
    unsigned answered = 0;
    uint64_t one_by_one_ns = 0, together_ns;

    (void)state;
    for (uint64_t i = 0; i < 64; i++) {
        r[i] = (struct medium_request){.kind = MEDIUM_READ,
                                       .offset = i * 2654435761 % (DISK / 4096) * 4096,
                                       .length = 4096};
        one_by_one_ns += ask(&d, MEDIUM_READ, r[i].offset, r[i].length);
    }
    together_ns = d.now_ns;
    for (unsigned i = 0; i < 64; i++)
        medium_submit(d.medium, &r[i], d.now_ns);
    while (answered < 64) {
        if (medium_answered(d.medium, d.now_ns) != NULL)
            answered++;
        else
            d.now_ns = medium_next_ns(d.medium);
    }
    together_ns = d.now_ns - together_ns;
    assert_true(together_ns < one_by_one_ns * 3 / 5);
    medium_destroy(d.medium);
}

static void flushes_take_what_the_profile_says(void **state)
{
    static const struct {
        const char *profile;
        uint64_t low_us, high_us;
    } expected[] = {
        {"ram", 10, 60}, {"nvme", 100, 300}, {"ssd", 900, 1200}, {"net", 6000, 7500}};

    (void)state;
    for (unsigned k = 0; k < sizeof(expected) / sizeof(expected[0]); k++) {
        struct disk d = disk_of(expected[k].profile);
        uint64_t sum_ns = 0;

        for (unsigned i = 0; i < 1000; i++)
            sum_ns += ask_durable(&d, i * UINT64_C(65536), 4096);
        assert_in_range(sum_ns / 1000 / 1000, expected[k].low_us, expected[k].high_us);
        medium_destroy(d.medium);
    }
}

static void a_networked_disk_has_a_heavy_tail(void **state)
{
    struct disk d = disk_of("net");
    unsigned slow = 0, very_slow = 0;

    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t took_ns = ask(&d, MEDIUM_READ, i * UINT64_C(4096), 4096);

        slow += took_ns > 10 * MS;
        very_slow += took_ns > 80 * MS;
    }
    assert_in_range(slow, 50, 150);
    assert_in_range(very_slow, 3, 30);
    medium_destroy(d.medium);
}

/* Flushes that wait together are one for the disk. */
static void flushes_share(void **state)
{
    struct disk d = disk_of("ssd");
    struct medium_request w = {.kind = MEDIUM_WRITE, .length = 4096};
    struct medium_request f[8];
    unsigned answered = 0;

    (void)state;
    medium_submit(d.medium, &w, 0);
    for (unsigned i = 0; i < 8; i++) {
        f[i] = (struct medium_request){.kind = MEDIUM_FLUSH};
        medium_submit(d.medium, &f[i], 0);
    }
    while (answered < 9) {
        if (medium_answered(d.medium, d.now_ns) != NULL)
            answered++;
        else
            d.now_ns = medium_next_ns(d.medium);
    }
    assert_in_range(d.now_ns, MS / 2, 2 * MS);
    medium_destroy(d.medium);
}

/* Nobody waits for a disk that has become fast. */
static void a_change_ends_all_waits(void **state)
{
    struct disk d = disk_of("hdd");
    struct medium_request w = {.kind = MEDIUM_WRITE, .offset = 1 << 30, .length = 4096};
    struct medium_request r = {.kind = MEDIUM_READ, .offset = 3 << 20, .length = 4096};
    struct medium_request f = {.kind = MEDIUM_FLUSH};

    (void)state;
    medium_submit(d.medium, &w, 0);
    medium_submit(d.medium, &r, 0);
    medium_submit(d.medium, &f, 0);
    assert_ptr_equal(medium_answered(d.medium, 100), &w);
    assert_null(medium_answered(d.medium, 100));
    medium_change(d.medium, medium_profile_find("off"), 200);
    assert_ptr_equal(medium_answered(d.medium, 200), &r);
    assert_ptr_equal(medium_answered(d.medium, 200), &f);
    assert_true(medium_idle(d.medium));
    d.now_ns = 200;
    assert_int_equal(ask(&d, MEDIUM_READ, 0, 4096), 0);
    medium_destroy(d.medium);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_append_waits_for_a_turn_and_a_gap_catches_it),
        cmocka_unit_test(far_is_later_than_near),
        cmocka_unit_test(a_stream_pays_for_its_bytes_alone),
        cmocka_unit_test(a_flush_drains_the_cache),
        cmocka_unit_test(a_full_cache_makes_writes_wait),
        cmocka_unit_test(the_nearest_goes_first),
        cmocka_unit_test(flushes_take_what_the_profile_says),
        cmocka_unit_test(a_networked_disk_has_a_heavy_tail),
        cmocka_unit_test(flushes_share),
        cmocka_unit_test(a_change_ends_all_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
