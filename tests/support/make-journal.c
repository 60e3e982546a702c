/* make-journal: a journal with content, as a server that was killed would leave it.
 *
 *   make-journal JOURNAL IMAGE EXPECTED [NAME=VALUE...]
 *
 * Makes JOURNAL if it is missing (size=), writes records=N random changes of IMAGE into it, from
 * seed=, with a commit after every commit= of them and one at the end unless last_commit=0, and
 * ends like a killed server: nothing goes home, the image stays marked.  To EXPECTED, a copy of
 * the image that the caller made, the same changes are applied: what a replay must make of IMAGE.
 * Prints the lsn of each change.
 *
 *   align=   offsets and lengths are multiples of it (1)
 *   max=     longest change in bytes (16384)
 *   zeroes=  every so many changes one is a trim and one a zero (7; 0: none)
 *   epoch=0  ends when the superblock of the session is written, before its first record
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "attach.h"
#include "core.h"
#include "report.h"

/* Long ago, so that nobody takes the clock's word for it. */
#define TIME_US UINT64_C(1700000000000000)

static struct {
    uint64_t size, records, seed, commit, last_commit, align, max, zeroes, epoch;
} set = {.size = 4 << 20,
         .records = 100,
         .seed = 1,
         .commit = 10,
         .last_commit = 1,
         .align = 1,
         .max = 16384,
         .zeroes = 7,
         .epoch = 1};

static const struct {
    const char *name;
    uint64_t *value;
} settings[] = {
    {"size=", &set.size},     {"records=", &set.records}, {"seed=", &set.seed},
    {"commit=", &set.commit}, {"align=", &set.align},     {"max=", &set.max},
    {"zeroes=", &set.zeroes}, {"epoch=", &set.epoch},     {"last_commit=", &set.last_commit}};

static struct journal_file jf;
static struct storage *image, *expected;
static struct core *core;
static uint64_t clock_us = TIME_US;

static void print_report(enum report_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void print_report(enum report_level level, const char *format, va_list args)
{
    if (level == REPORT_DEBUG)
        return;
    vfprintf(stderr, format, args);
    putc('\n', stderr);
}

static void must(int r, const char *what)
{
    if (r == 0)
        return;
    fprintf(stderr, "make-journal: %s: %s\n", what, strerror(-r));
    exit(1);
}

/* "5", "64K", "4M". */
static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);

    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

static uint64_t next_us(void)
{
    clock_us += 1000;
    return clock_us;
}

/* xorshift64*: the same numbers everywhere. */
static uint64_t random_number(void)
{
    static uint64_t x;

    if (x == 0)
        x = set.seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

static void ring_write(uint64_t position, const void *bytes, size_t count)
{
    must(
        storage_write(jf.storage, bytes, count, jf.sb.ring_start + position % jf.sb.ring_bytes),
        "write of the ring");
}

static void append_write(struct append *a, const uint8_t *payload)
{
    if (a->has_pad)
        ring_write(a->pad_position, a->pad_header, sizeof(a->pad_header));
    ring_write(a->record.position, a->header, sizeof(a->header));
    if (a->record.payload_bytes > 0)
        ring_write(a->record.position + FORMAT_RECORD_BYTES, payload, a->record.payload_bytes);
    core_append_copied(core, a, 0);
}

static void super_write(struct super_plan *plan)
{
    must(storage_write(jf.storage, plan->bytes, plan->bytes_count, plan->offset), "superblock");
    must(storage_barrier(jf.storage), "barrier");
    core_super_end(core, plan, 0);
}

static void commit(void)
{
    struct commit c;
    uint64_t from, to;
    int r = core_commit_begin(core, &c, next_us());

    if (r == 1)
        return;
    must(r, "commit");
    if (c.has_seal)
        append_write(&c.seal, NULL);
    while (core_commit_submit(core, &c, &from, &to))
        core_submit_end(core, 0);
    core_commit_end(core, &c, storage_barrier(jf.storage));
}

static struct image_mark mark;

static struct core_image *attach_image(void)
{
    const struct image_entry *known;
    struct image_entry entry;
    struct core_stats stats;
    struct core_image *core_image;
    bool supported;
    int r = 0;

    must(image_mark_read(image, &mark), "mark");
    must(image_identify(image, &entry), "identity");
    if (image_compare(&jf, jf.sb.state & SUPER_STATE_CLEAN, image, &mark, &entry, &known) ==
        MATCH_REFUSED)
        exit(1);
    if (known != NULL)
        memcpy(entry.uuid, known->uuid, FORMAT_UUID_BYTES);
    else if (getrandom(entry.uuid, FORMAT_UUID_BYTES, 0) != FORMAT_UUID_BYTES)
        exit(1);
    core_stats_get(core, &stats);
    mark = (struct image_mark){.present = true, .epoch = stats.epoch + 1, .is_opening = true};
    memcpy(mark.journal_uuid, jf.sb.uuid, FORMAT_UUID_BYTES);
    memcpy(mark.image_uuid, entry.uuid, FORMAT_UUID_BYTES);
    if (realpath(jf.storage->name, mark.journal_path) == NULL)
        exit(1);
    must(image_mark_write(image, &mark, &supported), "mark");
    entry.flags = IMAGE_FLAG_PENDING | (supported ? IMAGE_FLAG_MARKED : 0);
    core_image = core_image_add(core, &entry, &r);
    must(r, "image");
    return core_image;
}

static struct core_image *open_all(char **paths)
{
    struct core_image *core_image;
    struct recovery_result result;
    struct super_plan plan;
    struct append epoch;

    if (access(paths[0], F_OK) != 0)
        must(journal_create_file(paths[0], set.size, false), "create");
    must(journal_open(&jf, paths[0], ATTACH_REPAIR), "journal");
    must(storage_open_file(&image, paths[1], "image", false, false, true), "image");
    must(storage_open_file(&expected, paths[2], "image", false, false, true), "expected");
    must(core_create(&core, &jf.sb, SIZE_MAX), "core");
    must(journal_recover(&jf, core, UINT64_MAX, NULL, NULL, NULL, &result), "recovery");
    must(storage_barrier(jf.storage), "barrier");
    core_image = attach_image();
    must(core_activate(core, next_us(), &plan), "activation");
    super_write(&plan);
    mark.is_opening = false;
    must(image_mark_write(image, &mark, &(bool){false}), "mark");
    if (set.epoch == 0)
        _exit(0);
    must(core_epoch_begin(core, &epoch, next_us()), "epoch");
    append_write(&epoch, NULL);
    return core_image;
}

static enum record_kind choose_kind(uint64_t n)
{
    if (set.zeroes != 0 && n % set.zeroes == set.zeroes - 1)
        return RECORD_TRIM;
    if (set.zeroes != 0 && n % set.zeroes == set.zeroes / 2)
        return RECORD_ZERO;
    return RECORD_WRITE;
}

static void change(struct core_image *core_image, uint64_t n)
{
    enum record_kind kind = choose_kind(n);
    uint64_t units = image->size / set.align;
    uint64_t most = set.max / set.align < units ? set.max / set.align : units;
    uint64_t length = (1 + random_number() % most) * set.align;
    uint64_t offset = random_number() % (units - length / set.align + 1) * set.align;
    uint16_t flags = n % 5 == 4 ? RECORD_FLAG_FUA : 0;
    uint8_t *payload = malloc(length);
    struct append a = {0};
    uint64_t sum = 0;

    for (uint64_t i = 0; i < length; i++)
        payload[i] = (uint8_t)(random_number() >> 56);
    if (kind == RECORD_WRITE)
        sum = format_sum(core_seed(core), payload, length);
    must(core_append_admit(core, &a, core_image, kind, flags, offset, length, sum, next_us()),
         "admission (-EAGAIN: the journal is full)");
    append_write(&a, payload);
    if (kind == RECORD_WRITE)
        must(storage_write(expected, payload, length, offset), "expected");
    else
        must(storage_zero(expected, offset, length, false), "expected");
    printf("%" PRIu64 "\n", a.record.lsn);
    free(payload);
}

int main(int argc, char **argv)
{
    struct core_image *core_image;

    if (argc < 4)
        return 1;
    report_set_sink(print_report);
    for (int i = 4; i < argc; i++) {
        bool known = false;

        for (size_t j = 0; j < sizeof(settings) / sizeof(settings[0]); j++) {
            size_t count = strlen(settings[j].name);

            if (strncmp(argv[i], settings[j].name, count) == 0) {
                *settings[j].value = number(argv[i] + count);
                known = true;
            }
        }
        if (!known)
            return 1;
    }
    core_image = open_all(argv + 1);
    for (uint64_t n = 0; n < set.records; n++) {
        change(core_image, n);
        if (set.commit != 0 && n % set.commit == set.commit - 1)
            commit();
    }
    if (set.last_commit != 0)
        commit();
    fflush(stdout);
    _exit(0);
}
