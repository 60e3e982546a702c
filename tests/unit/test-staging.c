/* staging: what was written is read back, whatever part of it is in memory or on disk, also by
 * the next one after a kill, and settling puts it on the disk.
 *
 * The test keeps the core's bounds: at most half of staging is not submitted, nothing is overwritten
 * in the ring that was not given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "place.h"
#include "staging.h"

#define JOURNAL (UINT64_C(2) << 20)
#define SECTOR FORMAT_SECTOR

struct fixture {
    struct superblock sb;
    struct storage *journal;
    uint8_t *model; /* byte v % ring_bytes of the ring */
    uint64_t tail, head, submitted;
    uint64_t bytes;
};

static uint64_t place_of(const struct fixture *f, uint64_t position)
{
    return f->sb.ring_start + position % f->sb.ring_bytes;
}

static void open_journal(struct fixture *f, const char *path)
{
    assert_int_equal(storage_open_file(&f->journal, path, "journal", false, false, true), 0);
}

static void begin(struct fixture *f)
{
    uint8_t boot[FORMAT_UUID_BYTES];

    f->sb.epoch++;
    assert_int_equal(staging_begin(&f->journal, &f->sb, f->sb.epoch, f->head, &f->bytes, boot),
                     0);
    assert_true(f->bytes >= 4 * SECTOR);
    f->sb.staging_bytes = f->bytes;
    memcpy(f->sb.staging_boot, boot, FORMAT_UUID_BYTES);
    f->submitted = f->head;
}

/* One piece of up to 20 KiB at the head, not across the ring's end. */
static void append(struct fixture *f)
{
    uint64_t count = 1 + random() % 20000, left = f->sb.ring_bytes - f->head % f->sb.ring_bytes;
    uint8_t bytes[20000];

    if (count > left)
        count = left;
    if (f->head + count - f->submitted > f->bytes / 2)
        return;
    if (f->head + count - f->tail > f->sb.ring_bytes)
        f->tail = f->head + count - f->sb.ring_bytes;
    for (uint64_t i = 0; i < count; i++) {
        bytes[i] = random();
        f->model[(f->head + i) % f->sb.ring_bytes] = bytes[i];
    }
    assert_int_equal(storage_write(f->journal, bytes, count, place_of(f, f->head)), 0);
    f->head += count;
}

static void submit(struct fixture *f)
{
    uint64_t to = f->head / SECTOR * SECTOR;
    uint64_t end = (f->submitted / f->sb.ring_bytes + 1) * f->sb.ring_bytes;

    if (to > end)
        to = end;
    if (to == f->submitted)
        return;
    assert_int_equal(storage_submit(f->journal, place_of(f, f->submitted), to - f->submitted),
                     0);
    f->submitted = to;
}

static void read_some(struct fixture *f)
{
    uint64_t span = f->head - f->tail, position, count;
    uint8_t bytes[65536];

    if (span == 0)
        return;
    position = random() % 2 && span > 40000 ? f->head - random() % 40000 - 1
                                            : f->tail + random() % span;
    count = 1 + random() % sizeof(bytes);
    if (count > f->head - position)
        count = f->head - position;
    if (count > f->sb.ring_bytes - position % f->sb.ring_bytes)
        count = f->sb.ring_bytes - position % f->sb.ring_bytes;
    assert_int_equal(storage_read(f->journal, bytes, count, place_of(f, position)), 0);
    assert_memory_equal(bytes, f->model + position % f->sb.ring_bytes, count);
}

/* All live bytes, as recovery reads them. */
static void read_all_cold(struct fixture *f)
{
    uint8_t *bytes;
    uint64_t ring = f->sb.ring_bytes;

    bytes = aligned_alloc(4096, ring);
    assert_non_null(bytes);
    memset(bytes, 0, ring);
    assert_int_equal(storage_read_cold(f->journal, bytes, ring, f->sb.ring_start), 0);
    for (uint64_t v = f->tail; v < f->head; v++) {
        if (bytes[v % ring] != f->model[v % ring])
            fail_msg("position %lu of [%lu, %lu), submitted %lu", v, f->tail, f->head,
                     f->submitted);
    }
    free(bytes);
}

static void one_life(struct fixture *f, const char *path, bool settle)
{
    enum staging_found found;
    uint64_t sector_head;

    for (int step = 0; step < 1000; step++) {
        append(f);
        if (random() % 4 == 0)
            submit(f);
        read_some(f);
    }
    storage_close(f->journal); /* as kill -9 does: the staging file stays */

    open_journal(f, path);
    f->sb.tail.position = (f->tail + SECTOR - 1) / SECTOR * SECTOR;
    f->tail = f->sb.tail.position;
    assert_int_equal(staging_attach(&f->journal, &f->sb, &found), 0);
    assert_int_equal(found, STAGING_FOUND);
    read_all_cold(f);
    for (int i = 0; i < 100; i++)
        read_some(f);
    if (!settle)
        return;
    sector_head = (f->head + SECTOR - 1) / SECTOR * SECTOR;
    assert_int_equal(staging_settle(f->journal, sector_head), 0);
    storage_close(f->journal);
    open_journal(f, path); /* without staging: all of it is on disk */
    read_all_cold(f);
    f->head = sector_head;
    if (f->head - f->tail > f->sb.ring_bytes)
        f->tail = f->head - f->sb.ring_bytes;
    /* what lies between was staged by nobody */
    assert_int_equal(storage_read(f->journal, f->model, f->sb.ring_bytes, f->sb.ring_start), 0);
}

static void test_lives(void **state)
{
    const char *place = place_make(NULL);
    const char *path = place_file(place, "journal", JOURNAL);
    uint8_t uuid[FORMAT_UUID_BYTES];

    (void)state;
    for (unsigned seed = 1; seed <= 3; seed++) {
        struct fixture f = {0};

        srandom(seed);
        for (unsigned i = 0; i < sizeof(uuid); i++)
            uuid[i] = i < 4 ? (uint8_t)(getpid() >> (8 * i)) : random();
        format_super_init(&f.sb, uuid, JOURNAL, 1);
        f.sb.state = 0;
        f.model = calloc(1, f.sb.ring_bytes);
        open_journal(&f, path);
        for (int life = 0; life < 3; life++) {
            begin(&f);
            one_life(&f, path, true);
        }
        begin(&f);
        staging_remove(f.journal);
        storage_close(f.journal);
        free(f.model);
    }
}

/* Another boot id: stale.  The same and no file, or another epoch's: missing. */
static void test_found(void **state)
{
    const char *place = place_make(NULL);
    const char *path = place_file(place, "journal", JOURNAL);
    uint8_t uuid[FORMAT_UUID_BYTES] = {1, 2, 3};
    enum staging_found found;
    struct fixture f = {0};

    (void)state;
    memcpy(uuid + 3, &(pid_t){getpid()}, sizeof(pid_t));
    format_super_init(&f.sb, uuid, JOURNAL, 1);
    f.sb.state = 0;
    f.model = calloc(1, f.sb.ring_bytes);
    open_journal(&f, path);
    begin(&f);
    append(&f);
    storage_close(f.journal);

    open_journal(&f, path);
    f.sb.epoch += 5;
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_MISSING);
    f.sb.epoch -= 5;
    f.sb.staging_boot[3] ^= 1;
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_UNUSED);
    f.sb.staging_boot[3] ^= 1;
    f.sb.state = SUPER_STATE_CLEAN;
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_UNUSED);
    f.sb.state = 0;
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_FOUND);
    assert_int_equal(staging_settle(f.journal, SECTOR * 10), 0);
    begin(&f);
    staging_remove(f.journal);
    storage_close(f.journal);

    open_journal(&f, path);
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_MISSING);
    storage_close(f.journal);
    free(f.model);
}

/* A gap behind a commit is not submitted, and the tail may stand behind it. */
static void test_tail_behind_gap(void **state)
{
    const char *place = place_make(NULL);
    const char *path = place_file(place, "journal", JOURNAL);
    uint8_t uuid[FORMAT_UUID_BYTES] = {4, 5, 6}, bytes[SECTOR], again[SECTOR];
    enum staging_found found;
    struct fixture f = {0};
    uint64_t gap;

    (void)state;
    memcpy(uuid + 3, &(pid_t){getpid()}, sizeof(pid_t));
    format_super_init(&f.sb, uuid, JOURNAL, 1);
    f.sb.state = 0;
    open_journal(&f, path);
    begin(&f);
    gap = f.bytes / 8 / SECTOR * SECTOR;
    memset(bytes, 'g', sizeof(bytes));
    f.sb.tail.position = f.head + gap;
    assert_int_equal(storage_write(f.journal, bytes, SECTOR, place_of(&f, f.sb.tail.position)),
                     0);
    storage_close(f.journal);

    open_journal(&f, path);
    f.sb.tail.position += SECTOR; /* there is no gap so long */
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_MISSING);
    f.sb.tail.position -= SECTOR;
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_FOUND);
    assert_int_equal(storage_read(f.journal, again, SECTOR, place_of(&f, f.sb.tail.position)),
                     0);
    assert_memory_equal(again, bytes, SECTOR);
    assert_int_equal(staging_settle(f.journal, f.sb.tail.position + SECTOR), 0);
    staging_remove(f.journal);
    storage_close(f.journal);

    open_journal(&f, path);
    assert_int_equal(storage_read(f.journal, again, SECTOR, place_of(&f, f.sb.tail.position)),
                     0);
    assert_memory_equal(again, bytes, SECTOR);
    storage_close(f.journal);
}

static void give_staging_to(const struct fixture *f, uid_t uid)
{
    const uint8_t *u = f->sb.uuid;
    char path[100];
    int used = snprintf(path, sizeof(path), "/dev/shm/nbdkit-journal-");

    for (unsigned i = 0; i < FORMAT_UUID_BYTES; i++)
        used += snprintf(path + used, sizeof(path) - used, "%s%02x",
                         i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
    assert_int_equal(chown(path, uid, -1), 0);
}

/* Somebody else's is not believed; that of the user whom the superblock names is (nbdkit -u). */
static void test_owner(void **state)
{
    const char *place = place_make(NULL);
    const char *path = place_file(place, "journal", JOURNAL);
    uint8_t uuid[FORMAT_UUID_BYTES] = {4, 5, 6};
    enum staging_found found;
    struct fixture f = {0};

    (void)state;
    if (geteuid() != 0) {
        printf("skip: needs root\n");
        skip();
    }
    memcpy(uuid + 3, &(pid_t){getpid()}, sizeof(pid_t));
    format_super_init(&f.sb, uuid, JOURNAL, 1);
    f.sb.state = 0;
    f.model = calloc(1, f.sb.ring_bytes);
    open_journal(&f, path);
    begin(&f);
    append(&f);
    storage_close(f.journal);
    open_journal(&f, path);

    give_staging_to(&f, 1234);
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_MISSING);
    f.sb.staging_uid = 1235;
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_MISSING);
    f.sb.staging_uid = 1234;
    assert_int_equal(staging_attach(&f.journal, &f.sb, &found), 0);
    assert_int_equal(found, STAGING_FOUND);
    read_all_cold(&f);
    staging_remove(f.journal);
    storage_close(f.journal);
    free(f.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_tail_behind_gap),
        cmocka_unit_test(test_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
