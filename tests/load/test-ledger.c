/* The ledger claims what was answered and flushed: never more, and no less where it can know. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ledger.h"

#define SIZE (64 * SECTOR)

struct fixture {
    char path[64];
    struct ledger ledger;
    struct ledger_disk *disk;
};

static const struct ledger_spec spec = {"nbd://x", SIZE, 0, SIZE};

static void open_ledger(struct fixture *f, bool create)
{
    assert_int_equal(ledger_open(&f->ledger, f->path, &spec, 1, create), 0);
    f->disk = &f->ledger.disks[0];
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    snprintf(f->path, sizeof f->path, "/tmp/journal-test-ledger.%d", (int)getpid());
    unlink(f->path);
    open_ledger(f, true);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    ledger_close(&f->ledger);
    unlink(f->path);
    free(f);
    return 0;
}

static uint64_t write_at(struct fixture *f, uint64_t sector, uint32_t sectors, bool answered,
                         bool fua)
{
    uint64_t offset = sector * SECTOR;
    uint64_t sequence = ledger_write_begin(f->disk, offset, sectors * SECTOR);

    ledger_write_end(f->disk, offset, sectors * SECTOR, sequence, answered, fua);
    return sequence;
}

static void flush(struct fixture *f, bool answered)
{
    struct ledger_flush flush = {0};

    ledger_flush_begin(f->disk, &flush);
    ledger_flush_end(f->disk, &flush, answered);
}

static void expect(struct fixture *f, uint64_t sector, uint64_t flushed, uint64_t answered,
                   uint64_t issued)
{
    const struct ledger_entry *entry = &f->disk->entries[sector];

    assert_int_equal(ledger_flushed(f->disk, entry), flushed);
    assert_int_equal(entry->answered, answered);
    assert_int_equal(entry->issued, issued);
}

static void test_answer_and_flush(void **state)
{
    struct fixture *f = *state;
    uint64_t a = write_at(f, 3, 2, true, false), b;

    expect(f, 2, 0, 0, 0);
    expect(f, 3, 0, a, a);
    expect(f, 4, 0, a, a);
    expect(f, 5, 0, 0, 0);
    flush(f, false);
    expect(f, 3, 0, a, a);
    flush(f, true);
    expect(f, 3, a, a, a);
    b = write_at(f, 4, 1, true, false);
    expect(f, 3, a, a, a);
    expect(f, 4, a, b, b);
    b = write_at(f, 4, 1, false, false);
    expect(f, 4, a, b - 2, b); /* unanswered; an answer takes a number too */
}

static void test_fua(void **state)
{
    struct fixture *f = *state;
    uint64_t a = write_at(f, 1, 1, true, false);
    uint64_t b = write_at(f, 2, 1, true, true);

    expect(f, 1, 0, a, a); /* it covers itself only */
    expect(f, 2, b, b, b);
    b = write_at(f, 2, 1, false, true);
    assert_true(f->disk->entries[2].flushed < b);
}

/* What was answered before the flush was sent is covered; what was answered later is not. */
static void test_flush_in_flight(void **state)
{
    struct fixture *f = *state;
    struct ledger_flush first = {0}, second = {0};
    uint64_t a, b, c, later;

    a = write_at(f, 7, 1, true, false);
    ledger_flush_begin(f->disk, &first);
    b = write_at(f, 7, 1, true, false);
    later = write_at(f, 8, 1, true, false);
    ledger_flush_begin(f->disk, &second);
    c = write_at(f, 7, 1, true, false);
    expect(f, 7, 0, c, c);
    /* The answers come in the other order, and each says what it can. */
    ledger_flush_end(f->disk, &second, true);
    expect(f, 7, b, c, c);
    expect(f, 8, later, later, later);
    ledger_flush_end(f->disk, &first, true);
    expect(f, 7, b, c, c);
    assert_true(a < b);
}

static void test_flush_in_flight_fails(void **state)
{
    struct fixture *f = *state;
    struct ledger_flush first = {0}, second = {0};
    uint64_t a, b;

    a = write_at(f, 7, 1, true, false);
    ledger_flush_begin(f->disk, &first);
    ledger_flush_begin(f->disk, &second);
    b = write_at(f, 7, 1, true, false);
    ledger_flush_end(f->disk, &second, false);
    expect(f, 7, 0, b, b);
    ledger_flush_end(f->disk, &first, true);
    expect(f, 7, a, b, b);
}

static void test_busy(void **state)
{
    struct fixture *f = *state;
    uint64_t a = ledger_write_begin(f->disk, 8 * SECTOR, 2 * SECTOR);

    assert_true(ledger_busy(f->disk, 9 * SECTOR, SECTOR));
    assert_true(ledger_busy(f->disk, 5 * SECTOR, 4 * SECTOR));
    assert_false(ledger_busy(f->disk, 5 * SECTOR, 3 * SECTOR));
    assert_false(ledger_busy(f->disk, 10 * SECTOR, SECTOR));
    ledger_write_end(f->disk, 8 * SECTOR, 2 * SECTOR, a, false, false);
    assert_false(ledger_busy(f->disk, 8 * SECTOR, 2 * SECTOR));
}

/* It is all there in the next run, and the numbers go on. */
static void test_reopened(void **state)
{
    struct fixture *f = *state;
    uint8_t id[LEDGER_ID_BYTES];
    uint64_t a = write_at(f, 3, 1, true, false), b;

    flush(f, true);
    b = write_at(f, 3, 1, true, false);
    memcpy(id, ledger_id(&f->ledger), sizeof id);
    ledger_note_broken(&f->ledger, "first");
    ledger_note_broken(&f->ledger, "second");
    ledger_close(&f->ledger);
    open_ledger(f, false);
    assert_memory_equal(id, ledger_id(&f->ledger), sizeof id);
    assert_string_equal(ledger_broken(&f->ledger), "first");
    assert_false(f->ledger.created);
    expect(f, 3, a, b, b);
    assert_true(ledger_event(&f->ledger) > b);
}

static void read_buffer(struct fixture *f, uint8_t *buffer, uint64_t sequence)
{
    stamp_fill(buffer, ledger_id(&f->ledger), 0, 1, sequence, 4 * SECTOR, SECTOR);
}

static void test_reads(void **state)
{
    struct fixture *f = *state;
    uint8_t old[SECTOR], new[SECTOR], newer[SECTOR];
    uint64_t floor, a, b, c;
    char text[500];

    a = write_at(f, 4, 1, true, false);
    b = ledger_write_begin(f->disk, 4 * SECTOR, SECTOR);
    read_buffer(f, old, a);
    read_buffer(f, new, b);
    /* A write in flight: both are right, until one has been seen. */
    ledger_read_begin(f->disk, 4 * SECTOR, SECTOR, &floor);
    assert_int_equal(floor, a);
    assert_true(ledger_read_end(f->disk, 4 * SECTOR, SECTOR, &floor, old, text, sizeof text));
    assert_true(ledger_read_end(f->disk, 4 * SECTOR, SECTOR, &floor, new, text, sizeof text));
    ledger_read_begin(f->disk, 4 * SECTOR, SECTOR, &floor);
    assert_int_equal(floor, b);
    assert_false(ledger_read_end(f->disk, 4 * SECTOR, SECTOR, &floor, old, text, sizeof text));
    assert_non_null(strstr(text, "sector at 2048"));
    ledger_write_end(f->disk, 4 * SECTOR, SECTOR, b, true, false);
    /* A version that was never sent. */
    c = b + 100;
    read_buffer(f, newer, c);
    assert_false(
        ledger_read_end(f->disk, 4 * SECTOR, SECTOR, &floor, newer, text, sizeof text));
    /* Damage without a write in flight; with one it is a mixture, which may be. */
    new[100] ^= 1;
    assert_false(ledger_read_end(f->disk, 4 * SECTOR, SECTOR, &floor, new, text, sizeof text));
    c = ledger_write_begin(f->disk, 4 * SECTOR, SECTOR);
    assert_true(ledger_read_end(f->disk, 4 * SECTOR, SECTOR, &floor, new, text, sizeof text));
    assert_int_equal(f->disk->torn_reads, 1);
    ledger_write_end(f->disk, 4 * SECTOR, SECTOR, c, true, false);
    /* Never written: anything. */
    ledger_read_begin(f->disk, 5 * SECTOR, SECTOR, &floor);
    assert_true(ledger_read_end(f->disk, 5 * SECTOR, SECTOR, &floor, old, text, sizeof text));
}

static void test_forget(void **state)
{
    struct fixture *f = *state;

    write_at(f, 4, 3, true, true);
    ledger_forget_begin(f->disk, 5 * SECTOR, SECTOR);
    assert_true(ledger_busy(f->disk, 4 * SECTOR, 3 * SECTOR));
    assert_false(ledger_busy(f->disk, 4 * SECTOR, SECTOR));
    ledger_forget_end(f->disk, 5 * SECTOR, SECTOR);
    assert_false(ledger_busy(f->disk, 4 * SECTOR, 3 * SECTOR));
    expect(f, 5, 0, 0, 0);
    assert_true(f->disk->entries[4].answered > 0 && f->disk->entries[6].answered > 0);
}

static void test_settle(void **state)
{
    struct fixture *f = *state;
    uint64_t a, b, c;

    a = write_at(f, 3, 1, true, false);
    flush(f, true);
    b = write_at(f, 3, 1, true, false);
    c = write_at(f, 3, 1, false, false);
    /* Killed: the unanswered one was there after all, but is not flushed. */
    ledger_settle(f->disk, 3, c, false);
    expect(f, 3, a, c, c);
    /* Cut: back to the flushed one, and nothing else may come. */
    ledger_settle(f->disk, 3, a, true);
    expect(f, 3, a, a, a);
    b = write_at(f, 3, 1, true, false);
    ledger_settle(f->disk, 3, b, true);
    expect(f, 3, a, b, b);
    flush(f, true);
    expect(f, 3, b, b, b);
    assert_true(a < b);
}

static void test_stamps(void **state)
{
    struct fixture *f = *state;
    uint8_t sectors[2 * SECTOR], other_id[LEDGER_ID_BYTES] = {1};
    const uint8_t *id = ledger_id(&f->ledger);
    struct stamp stamp;
    char text[200];

    memset(sectors, 0, sizeof sectors);
    assert_int_equal(stamp_check(sectors, id, 0, 0, &stamp), STAMP_ZEROES);
    sectors[511] = 1;
    assert_int_equal(stamp_check(sectors, id, 0, 0, &stamp), STAMP_NONE);
    stamp_fill(sectors, id, 2, 9, 77, 1024, 2 * SECTOR);
    assert_int_equal(stamp_check(sectors + SECTOR, id, 2, 1536, &stamp), STAMP_GOOD);
    assert_int_equal(stamp.sequence, 77);
    assert_int_equal(stamp.start, 1024);
    assert_int_equal(stamp.length, 1024);
    assert_int_equal(stamp.writer, 9);
    stamp_describe(text, sizeof text, STAMP_GOOD, &stamp, sectors);
    assert_string_equal(text, "write 77 (1024 bytes at 1024, writer 9)");
    assert_int_equal(stamp_check(sectors + SECTOR, id, 2, 1024, &stamp), STAMP_MISPLACED);
    assert_int_equal(stamp_check(sectors, id, 1, 1024, &stamp), STAMP_MISPLACED);
    assert_int_equal(stamp_check(sectors, other_id, 2, 1024, &stamp), STAMP_FOREIGN);
    for (int i = 0; i < (int)SECTOR; i++) {
        sectors[i] ^= 0x40;
        assert_int_equal(stamp_check(sectors, id, 2, 1024, &stamp),
                         i < 8 ? STAMP_NONE : STAMP_DAMAGED);
        sectors[i] ^= 0x40;
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_answer_and_flush),
        CASE(test_fua),
        CASE(test_flush_in_flight),
        CASE(test_flush_in_flight_fails),
        CASE(test_busy),
        CASE(test_reopened),
        CASE(test_reads),
        CASE(test_forget),
        CASE(test_settle),
        CASE(test_stamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
