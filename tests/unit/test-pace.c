/* How fast a checkpoint goes and the ring fills: the core alone, with a disk that is only told of. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core.h"

#define BLOCK 4096u
#define IMAGE (UINT64_C(1) << 40)
#define LOAD_UNIT (UINT64_C(128) << 10)

struct journal {
    struct core *core;
    struct core_image *image;
    struct checkpoint_step *step;
    uint64_t ring_bytes, next_block;
    uint64_t load_us; /* for each 128 KiB */
};

static void copied(struct journal *j, struct append *a)
{
    uint64_t from, to;

    core_append_copied(j->core, a, 0);
    assert_int_equal(a->state, APPEND_PUBLISHED);
    while (core_submit_begin(j->core, &from, &to))
        core_submit_end(j->core, 0);
}

static void commit(struct journal *j, uint64_t took_us)
{
    struct commit commit;
    uint64_t from, to;

    if (core_commit_begin(j->core, &commit, 0) == 1)
        return;
    if (commit.has_seal)
        copied(j, &commit.seal);
    assert_true(core_commit_ready(j->core, &commit));
    while (core_commit_submit(j->core, &commit, &from, &to))
        core_submit_end(j->core, 0);
    commit.took_us = took_us;
    core_commit_end(j->core, &commit, 0);
}

static int setup(void **state)
{
    struct journal *j = calloc(1, sizeof(*j));
    struct image_entry entry = {
        .uuid = {2}, .kind = IMAGE_FILE, .flags = IMAGE_FLAG_PENDING, .size = IMAGE};
    struct super_plan plan;
    struct superblock sb;
    struct append a;
    int error;

    j->step = calloc(1, sizeof(*j->step));
    format_super_init(&sb, (const uint8_t[FORMAT_UUID_BYTES]){1}, 32 << 20, 0);
    j->ring_bytes = sb.ring_bytes;
    assert_int_equal(core_create(&j->core, &sb, 64 << 20), 0);
    j->image = core_image_add(j->core, &entry, &error);
    assert_non_null(j->image);
    assert_int_equal(core_activate(j->core, 0, &plan), 0);
    core_super_end(j->core, &plan, 0);
    assert_int_equal(core_epoch_begin(j->core, &a, 0), 0);
    copied(j, &a);
    *state = j;
    return 0;
}

static int teardown(void **state)
{
    struct journal *j = *state;

    core_destroy(j->core);
    free(j->step);
    free(j);
    return 0;
}

static uint64_t used(const struct journal *j)
{
    struct core_stats stats;

    core_stats_get(j->core, &stats);
    return stats.used_bytes;
}

/* A block of its own, far from the others. */
static int write_block(struct journal *j)
{
    struct append a = {.state = APPEND_IDLE};
    int r = core_append_admit(j->core, &a, j->image, RECORD_WRITE, 0,
                              j->next_block * 16 * BLOCK % IMAGE, BLOCK, 0, 0);

    if (r == 0) {
        j->next_block++;
        copied(j, &a);
    }
    return r;
}

static uint64_t write_until(struct journal *j, uint64_t bytes)
{
    uint64_t before = used(j);

    while (used(j) < bytes && write_block(j) == 0)
        ;
    return used(j) - before;
}

static uint64_t load_bytes(const struct journal *j)
{
    return j->step->load_to - j->step->load_from;
}

/* The next step is carried out.  False: it was the last one. */
static bool step(struct journal *j, uint64_t us_per_place)
{
    assert_int_equal(core_checkpoint_next(j->core, j->step, 0), 0);
    if (j->step->kind == STEP_DONE)
        return false;
    if (j->step->kind == STEP_COMMIT)
        commit(j, 0);
    if (j->step->kind == STEP_COPY)
        j->step->took_us = j->step->count * us_per_place;
    if (j->step->kind == STEP_LOAD)
        j->step->took_us = load_bytes(j) * j->load_us / LOAD_UNIT;
    core_checkpoint_step_end(j->core, j->step, 0);
    return true;
}

/* P8: who is faster than the disk gets space in small portions, all the time and up to the end. */
static void a_fast_writer_is_slowed_down_and_never_stopped(void **state)
{
    struct journal *j = *state;
    uint64_t largest = 0, begin, longest = 0, without = 0;

    write_until(j, j->ring_bytes / 2 + BLOCK);
    commit(j, 8000);
    assert_true(core_checkpoint_wanted(j->core));
    assert_int_equal(core_checkpoint_begin(j->core, false), 0);
    begin = used(j);
    do {
        uint64_t given = 0;

        assert_true(step(j, 1000));
        if (j->step->kind == STEP_COPY)
            given = write_until(j, UINT64_MAX);
        if (given > largest)
            largest = given;
        without = given > 0 || j->step->kind != STEP_COPY ? 0 : without + 1;
        if (without > longest)
            longest = without;
    } while (j->step->kind != STEP_FLUSH_IMAGE);
    assert_in_range(largest, BLOCK, j->ring_bytes / 16);
    assert_int_equal(longest, 0);
    /* Some is left for what remains to be done, and then given out. */
    assert_in_range(used(j) + write_until(j, UINT64_MAX), begin + j->ring_bytes / 8 * 3,
                    j->ring_bytes);
    assert_in_range(used(j), j->ring_bytes / 10 * 9, j->ring_bytes);
    assert_int_equal(write_block(j), -EAGAIN);
    while (step(j, 1000))
        ;
    assert_int_equal(write_block(j), 0);
}

/* What is drained because the disk is idle is in nobody's way. */
static void a_burst_beside_a_drain_is_not_slowed_down(void **state)
{
    struct journal *j = *state;

    write_until(j, j->ring_bytes / 8);
    commit(j, 8000);
    assert_int_equal(core_checkpoint_begin(j->core, false), 0);
    while (step(j, 1000) && j->step->kind != STEP_COPY)
        ;
    assert_true(write_until(j, j->ring_bytes / 2) >= j->ring_bytes / 4);
    while (step(j, 1000))
        ;
}

/* Pieces of the last full step when each takes so long. */
static size_t pieces_of(struct journal *j, uint64_t us_per_place, uint64_t commit_us)
{
    size_t pieces = 0;

    for (unsigned round = 0; round < 4; round++) {
        write_until(j, j->ring_bytes / 2 + BLOCK);
        for (unsigned i = 0; i < 16; i++) {
            assert_int_equal(write_block(j), 0);
            commit(j, commit_us);
        }
        assert_int_equal(core_checkpoint_begin(j->core, false), 0);
        while (step(j, us_per_place)) {
            if (j->step->kind == STEP_COPY && j->step->count > 0 && round == 3 && pieces == 0)
                pieces = j->step->count;
            assert_true(j->step->kind != STEP_COPY || j->step->barrier == (commit_us > 3000));
        }
    }
    return pieces;
}

/* A step takes a few commits, on each kind of disk. */
static void steps_are_as_long_as_the_disk_is_slow(void **state)
{
    struct journal *j = *state;

    assert_in_range(pieces_of(j, 2000, 8000), 8, 30);
    assert_in_range(pieces_of(j, 20, 200), 15, 30);
    assert_in_range(pieces_of(j, 2, 200), 150, 400);
}

/* So does reading the ring. */
static void loads_are_as_long_as_the_disk_is_slow(void **state)
{
    struct journal *j = *state;
    uint64_t longest = 0;

    j->load_us = 300;
    (void)pieces_of(j, 20, 200);
    write_until(j, j->ring_bytes / 2 + BLOCK);
    assert_int_equal(core_checkpoint_begin(j->core, false), 0);
    while (step(j, 20)) {
        if (j->step->kind == STEP_LOAD && load_bytes(j) > longest)
            longest = load_bytes(j);
    }
    assert_in_range(longest, LOAD_UNIT, 2 * LOAD_UNIT);
}

/* Where reading the ring takes half of the time, half of the space is given out meanwhile. */
static void space_comes_as_time_goes_by(void **state)
{
    struct journal *j = *state;
    uint64_t given = 0, before;

    j->load_us = 600; /* a record of 4 KiB takes 20 */
    (void)pieces_of(j, 20, 200);
    write_until(j, j->ring_bytes / 2 + BLOCK);
    commit(j, 200);
    before = used(j);
    assert_int_equal(core_checkpoint_begin(j->core, false), 0);
    do {
        assert_true(step(j, 20));
        if (j->step->kind == STEP_LOAD)
            given += write_until(j, UINT64_MAX);
    } while (j->step->kind != STEP_COPY);
    assert_in_range(given, (j->ring_bytes - before) / 4, (j->ring_bytes - before) / 3 * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fast_writer_is_slowed_down_and_never_stopped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_burst_beside_a_drain_is_not_slowed_down, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(steps_are_as_long_as_the_disk_is_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(loads_are_as_long_as_the_disk_is_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(space_comes_as_time_goes_by, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
