/* attach: creating and opening journals, finding the superblock that counts, recovery from a
 * real file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach.h"
#include "faulty.h"
#include "place.h"
#include "words.h"

#define MIB (UINT64_C(1) << 20)

static const char *disk, *memory;

static int setup(void **state)
{
    (void)state;
    words_forget();
    return 0;
}

/* ---- tools ---- */

static void poke(const char *path, uint64_t offset, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_true(fd != -1);
    assert_int_equal(pwrite(fd, bytes, count, offset), count);
    close(fd);
}

static void peek(const char *path, uint64_t offset, void *bytes, size_t count)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd != -1);
    assert_int_equal(pread(fd, bytes, count, offset), count);
    close(fd);
}

static const char *new_journal(const char *name, uint64_t size)
{
    const char *path = place_path(disk, name);

    unlink(path);
    assert_int_equal(journal_create_file(path, size, false), 0);
    return path;
}

/* Whatever is refused is refused in one line and without changing a byte. */
static void refused(const char *path, enum attach_mode mode, int error, const char *words)
{
    struct journal_file jf;
    struct stat before, after;
    uint8_t *bytes, *again;

    assert_int_equal(stat(path, &before), 0);
    bytes = malloc(before.st_size + 1);
    again = malloc(before.st_size + 1);
    peek(path, 0, bytes, before.st_size);
    words_forget();
    assert_int_equal(journal_open(&jf, path, mode), error);
    assert_int_equal(words_count("error:"), 1);
    assert_true(words_contain(path));
    assert_true(words_contain(words));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    peek(path, 0, again, before.st_size);
    assert_memory_equal(again, bytes, before.st_size);
    free(bytes);
    free(again);
}

static void opens(const char *path, uint64_t generation, int slots)
{
    struct journal_file jf;

    assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
    assert_int_equal(jf.sb.generation, generation);
    assert_int_equal(jf.slots_valid, slots);
    journal_close(&jf);
}

/* Encodes a superblock into its slot. */
static void put_super(const char *path, const struct superblock *sb)
{
    uint8_t *bytes = malloc(sb->super_bytes);

    format_super_encode(sb, bytes);
    poke(path, sb->generation % 2 * sb->super_bytes, bytes, sb->super_bytes);
    free(bytes);
}

/* ---- creating ---- */

static void default_size(void **state)
{
    (void)state;
    assert_int_equal(journal_default_size(1), 64 * MIB);
    assert_int_equal(journal_default_size(512 * MIB), 64 * MIB);
    assert_int_equal(journal_default_size(512 * MIB + 1), 65 * MIB);
    assert_int_equal(journal_default_size(1024 * MIB), 128 * MIB);
    assert_int_equal(journal_default_size(8192 * MIB), 1024 * MIB);
    assert_int_equal(journal_default_size(INT64_MAX), 1024 * MIB);
}

static void created_journal(void **state)
{
    const char *places[] = {disk, memory};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *path = place_path(places[i], "created");
        uint64_t size = 20 * MIB + 1000;
        struct journal_file jf;
        struct stat st;

        assert_int_equal(journal_create_file(path, size, false), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, size);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_true(st.st_blocks * 512 >= (int64_t)size / 4096 * 4096);

        assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
        assert_int_equal(jf.slots_valid, 2);
        assert_int_equal(jf.sb.generation, 2);
        assert_int_equal(jf.sb.epoch, 0);
        assert_int_equal(jf.sb.state, SUPER_STATE_CLEAN);
        assert_int_equal(jf.sb.image_count, 0);
        assert_int_equal(jf.sb.ring_bytes, 20 * MIB - 131072);
        assert_int_equal(jf.sb.ring_written, 16 * MIB);
        assert_false(jf.storage->read_only);
        journal_close(&jf);
        assert_string_equal(words_text(), "");
    }
}

static void two_journals_differ(void **state)
{
    struct journal_file a, b;

    (void)state;
    assert_int_equal(journal_open(&a, new_journal("one", MIB), ATTACH_SERVE), 0);
    assert_int_equal(journal_open(&b, new_journal("two", MIB), ATTACH_SERVE), 0);
    assert_memory_not_equal(a.sb.uuid, b.sb.uuid, FORMAT_UUID_BYTES);
    assert_int_equal(a.sb.ring_written, a.sb.ring_bytes);
    journal_close(&a);
    journal_close(&b);
}

static void not_created(const char *path, uint64_t size, int error, const char *words)
{
    words_forget();
    assert_int_equal(journal_create_file(path, size, false), error);
    assert_int_equal(words_count("error:"), 1);
    assert_true(words_contain(path));
    assert_true(words_contain(words));
}

static void not_created_over_anything(void **state)
{
    const char *file = place_file(disk, "in-the-way", 5);
    const char *link_path = place_path(disk, "link"), *target = place_path(disk, "target");
    const char *directory = place_path(disk, "directory");
    char bytes[5];

    (void)state;
    assert_int_equal(symlink(target, link_path), 0);
    assert_int_equal(mkdir(directory, 0700), 0);
    poke(file, 0, "bytes", 5);
    not_created(file, MIB, -EEXIST, "something of this name");
    peek(file, 0, bytes, 5);
    assert_memory_equal(bytes, "bytes", 5);
    not_created(directory, MIB, -EEXIST, "something of this name");
    not_created(link_path, MIB, -ELOOP, "symbolic link");
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(symlink(file, place_path(disk, "link-to-file")), 0);
    not_created(place_path(disk, "link-to-file"), MIB, -ELOOP, "symbolic link");
    not_created(place_path(disk, "no/such/directory"), MIB, -ENOENT, "can't open directory");
    not_created(place_path(disk, "small"), MIB - 1, -EINVAL, "the least is 1048576");
    not_created(place_path(disk, "small"), 0, -EINVAL, "the least is 1048576");
    not_created(place_path(disk, "large"), FORMAT_JOURNAL_MAX + 1, -EINVAL, "the most is");
    assert_int_equal(access(place_path(disk, "small"), F_OK), -1);
}

/* No space: an error with numbers, and nothing is left of it. */
static void no_space(void **state)
{
    const char *path = place_path(disk, "enormous");

    (void)state;
    words_forget();
    assert_true(journal_create_file(path, FORMAT_JOURNAL_MAX, false) < 0);
    assert_true(words_contain("can't create journal"));
    assert_int_equal(access(path, F_OK), -1);
}

/* ---- opening ---- */

static void no_journals(void **state)
{
    const char *path = place_file(disk, "none", 3 * MIB);
    uint8_t *bytes = malloc(MIB);

    (void)state;
    refused(path, ATTACH_SERVE, -EINVAL, "is not a journal"); /* zeroes */
    memset(bytes, 0xff, MIB);
    poke(path, 0, bytes, MIB);
    refused(path, ATTACH_INSPECT, -EINVAL, "is not a journal");
    for (size_t i = 0; i < MIB; i++)
        bytes[i] = i * 0x9e3779b97f4a7c15 >> 56;
    poke(path, 0, bytes, MIB);
    refused(path, ATTACH_REPAIR, -EINVAL, "is not a journal");
    refused(place_file(disk, "tiny", 1), ATTACH_SERVE, -EINVAL, "is not a journal");
    refused(place_file(disk, "empty", 0), ATTACH_SERVE, -EINVAL, "is empty");
    free(bytes);
}

/* Power fails while a superblock is written: at every sector, and with every mixture of sectors
 * around it, the other one counts. */
static void torn_superblocks(void **state)
{
    const char *path = new_journal("torn", MIB);
    uint8_t *old = malloc(65536), *fresh = malloc(65536), *torn = malloc(65536);

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct journal_file jf;
        struct superblock next;
        uint64_t at;

        assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
        next = jf.sb;
        journal_close(&jf);
        next.generation++;
        next.epoch++;
        at = next.generation % 2 * 65536;
        peek(path, at, old, 65536);
        format_super_encode(&next, fresh);
        for (unsigned cut = 1; cut < 8; cut++) {
            memcpy(torn, fresh, cut * 512);
            memcpy(torn + cut * 512, old + cut * 512, 65536 - cut * 512);
            poke(path, at, torn, 65536);
            opens(path, 2 + round, 1);
            memset(torn + (cut - 1) * 512, 0xa5, 512); /* and a sector of garbage */
            poke(path, at, torn, 65536);
            opens(path, 2 + round, 1);
        }
        poke(path, at, fresh, 65536);
        opens(path, 3 + round, 2);
    }
    free(old);
    free(fresh);
    free(torn);
}

static void both_superblocks_damaged(void **state)
{
    const char *path = new_journal("damaged", MIB);

    (void)state;
    poke(path, 100, "xxxx", 4);
    opens(path, 1, 1);
    poke(path, 65536 + 100, "xxxx", 4);
    refused(path, ATTACH_SERVE, -EUCLEAN, "none of its two superblocks is valid");
    refused(path, ATTACH_INSPECT, -EUCLEAN, "nbdjournal adopt");
}

/* The second copy is found although nothing says any more where it is. */
static void other_sizes_of_superblocks(void **state)
{
    (void)state;
    for (uint32_t size = FORMAT_SUPER_MIN; size <= FORMAT_SUPER_MAX; size *= 2) {
        const char *path = place_file(disk, "sizes", 4 * MIB);
        uint8_t zeroes[4096] = {0};
        struct superblock sb;

        format_super_init(&sb, (const uint8_t[16]){1, size >> 13}, 4 * MIB, 0);
        sb.super_bytes = size;
        sb.ring_start = 2 * size;
        sb.ring_bytes = MIB;
        put_super(path, &sb);
        opens(path, 1, 1);
        sb.generation = 2;
        put_super(path, &sb);
        opens(path, 2, 2);
        poke(path, 0, zeroes, sizeof(zeroes));
        opens(path, 1, 1);
    }
}

static void superblocks_in_the_wrong_place(void **state)
{
    const char *path = new_journal("misplaced", MIB);
    uint8_t *bytes = malloc(65536);

    (void)state;
    peek(path, 0, bytes, 65536);
    poke(path, 65536, bytes, 65536); /* the first one copied over the second */
    opens(path, 2, 1);
    poke(path, 0, "xxxx", 4);
    refused(path, ATTACH_SERVE, -EUCLEAN, "none of its two superblocks is valid");
    free(bytes);
}

static void superblocks_of_two_journals(void **state)
{
    const char *path = new_journal("first", MIB), *other = new_journal("second", MIB);
    uint8_t *bytes = malloc(65536);

    (void)state;
    peek(other, 65536, bytes, 65536);
    poke(path, 65536, bytes, 65536);
    refused(path, ATTACH_SERVE, -EUCLEAN, "belong to different journals");
    free(bytes);
}

static void truncated_journal(void **state)
{
    const char *path = new_journal("truncated", 2 * MIB);

    (void)state;
    assert_int_equal(truncate(path, 2 * MIB + 10), 0); /* longer is fine */
    opens(path, 2, 2);
    assert_int_equal(truncate(path, 2 * MIB - 1), 0);
    refused(path, ATTACH_SERVE, -EUCLEAN, "has 2097151 bytes, its superblock says 2097152");
    refused(path, ATTACH_INSPECT, -EUCLEAN, "is truncated");
    assert_int_equal(truncate(path, 65536 + 100), 0);
    refused(path, ATTACH_REPAIR, -EUCLEAN, "is truncated");
    assert_int_equal(truncate(path, 5000), 0);
    refused(path, ATTACH_REPAIR, -EUCLEAN, "none of its two superblocks is valid");
}

static void other_versions(void **state)
{
    const char *path = new_journal("versions", MIB);
    struct superblock sb;
    struct journal_file jf;
    const uint8_t newer[4] = {2}, swapped[4] = {1, 2, 3, 4}, zero[4] = {0};

    (void)state;
    assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
    sb = jf.sb;
    journal_close(&jf);

    poke(path, 8, newer, 4);
    refused(path, ATTACH_SERVE, -EINVAL, "written by a newer version");
    poke(path, 65536 + 8, newer, 4);
    refused(path, ATTACH_INSPECT, -EINVAL, "written by a newer version");
    poke(path, 8, zero, 4);
    poke(path, 65536 + 8, zero, 4);
    refused(path, ATTACH_SERVE, -EUCLEAN, "damaged");

    new_journal("versions", MIB);
    poke(path, 12, swapped, 4);
    poke(path, 65536 + 12, swapped, 4);
    refused(path, ATTACH_SERVE, -EINVAL, "other byte order");

    new_journal("versions", MIB);
    poke(path, 65536, zero, 4);
    sb.feature_incompat = 4;
    put_super(path, &sb);
    refused(path, ATTACH_INSPECT, -EINVAL, "uses a feature that this version does not know");
    sb.feature_incompat = 0;
    sb.feature_ro = 0x10;
    put_super(path, &sb);
    refused(path, ATTACH_SERVE, -EINVAL, "bits 0x10");
    refused(path, ATTACH_REPAIR, -EINVAL, "bits 0x10");
    assert_int_equal(journal_open(&jf, path, ATTACH_INSPECT), 0);
    journal_close(&jf);
    sb.feature_ro = 0;
    sb.feature_compat = 0x10;
    put_super(path, &sb);
    opens(path, 2, 1);
}

static void modes(void **state)
{
    const char *path = new_journal("modes", MIB);
    struct journal_file jf, inspected;

    (void)state;
    assert_int_equal(journal_open(&inspected, path, ATTACH_INSPECT), 0);
    assert_true(inspected.storage->read_only);
    assert_false(inspected.in_use);
    assert_int_equal(journal_open(&jf, path, ATTACH_REPAIR), 0);
    assert_false(jf.storage->read_only);
    journal_close(&inspected);
    assert_int_equal(journal_open(&inspected, path, ATTACH_INSPECT), 0);
    assert_true(inspected.in_use);
    journal_close(&inspected);
    refused(path, ATTACH_SERVE, -EBUSY, "in use");
    journal_close(&jf);
    opens(path, 2, 2);
}

/* Without permission to write: serving is read-only, repairing is refused. */
static void read_only_journal(void **state)
{
    const char *path = new_journal("read-only", MIB);
    struct journal_file jf;
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(disk, 0755), 0);
    pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) == -1)
            _exit(1);
        if (journal_open(&jf, path, ATTACH_REPAIR) != -EACCES)
            _exit(2);
        if (journal_open(&jf, path, ATTACH_SERVE) != 0 || !jf.storage->read_only)
            _exit(3);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- recovery from a real file ---- */

/* Makes a journal whose ring begins with `count` writes of `bytes` each, and says that the
 * first `durable` of them were durable.  Sectors of 512: reads must be aligned anyway. */
static uint64_t put_records(const char *path, struct superblock *sb, int count, uint32_t bytes,
                            uint64_t durable)
{
    uint8_t *record = malloc(FORMAT_RECORD_BYTES + bytes);
    uint64_t seed = format_seed(sb->uuid), chain = sb->tail.chain, lsn = sb->tail.lsn;
    uint64_t position = sb->tail.position;

    for (int i = 0; i < count; i++) {
        lsn++;
        struct record r = {
            .kind = RECORD_WRITE,
            .epoch = sb->tail.epoch,
            .image_id = 1,
            .lsn = lsn,
            .durable_lsn = i == 0          ? 0
                           : durable < lsn ? durable
                                           : lsn - 1,
            .position = position,
            .chain = chain,
            .offset = (uint64_t)i * bytes,
            .length = bytes,
            .payload_bytes = bytes,
            .span_bytes = format_span(bytes),
        };

        memset(record + FORMAT_RECORD_BYTES, i + 1, bytes);
        r.payload_sum = format_sum(seed, record + FORMAT_RECORD_BYTES, bytes);
        format_record_encode(seed, &r, record);
        poke(path, sb->ring_start + position % sb->ring_bytes, record,
             FORMAT_RECORD_BYTES + bytes);
        chain = r.header_sum;
        position += r.span_bytes;
    }
    free(record);
    return position;
}

static void make_dirty(const char *path, struct superblock *sb)
{
    static struct image_entry image = {
        .uuid = {1}, .id = 1, .kind = IMAGE_FILE, .size = 1 << 30, .inode = 1};
    struct journal_file jf;

    assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
    *sb = jf.sb;
    journal_close(&jf);
    sb->sector_bytes = 512;
    sb->state = 0;
    sb->epoch = 1;
    sb->images = &image;
    sb->image_count = 1;
    sb->next_image_id = 2;
    sb->tail = (struct ring_mark){.position = 7 * 512, .lsn = 5, .chain = 9, .epoch = 1};
    put_super(path, sb);
    sb->generation++;
    put_super(path, sb);
}

static int visit_count;
static int count_visits(void *opaque, const struct record *record)
{
    (void)opaque;
    (void)record;
    visit_count++;
    return 0;
}

static enum recovery_verdict recover(const char *path, struct recovery_result *result)
{
    struct journal_file jf;
    struct core *core;

    assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
    assert_int_equal(core_create(&core, &jf.sb, 16 << 20), 0);
    visit_count = 0;
    assert_int_equal(journal_recover(&jf, core, UINT64_MAX, count_visits, NULL, NULL, result),
                     0);
    if (result->verdict == RECOVERY_DAMAGED)
        journal_report_damage(&jf, result);
    core_destroy(core);
    journal_close(&jf);
    return result->verdict;
}

static void recovery_of_a_file(void **state)
{
    const char *path = new_journal("recover", 12 * MIB);
    struct recovery_result result;
    struct superblock sb;
    uint64_t end;

    (void)state;
    assert_int_equal(recover(path, &result), RECOVERY_EMPTY);
    make_dirty(path, &sb);
    assert_int_equal(recover(path, &result), RECOVERY_EMPTY);

    /* More than one piece of 4 MiB. */
    end = put_records(path, &sb, 90, 100001, 0);
    assert_int_equal(recover(path, &result), RECOVERY_REPLAY);
    assert_int_equal(result.records, 90);
    assert_int_equal(visit_count, 90);
    assert_int_equal(result.payload_bytes, 90 * 100001);
    assert_int_equal(result.cut.lsn, 95);
    assert_int_equal(result.cut.position, end);

    /* A break in the first piece: the search for witnesses goes on through all others. */
    poke(path, sb.ring_start + 7 * 512 + 2 * format_span(100001) + 200, "torn", 4);
    assert_int_equal(recover(path, &result), RECOVERY_REPLAY);
    assert_int_equal(result.records, 2);
    assert_int_equal(result.cut.lsn, 7);
    assert_true(result.torn);

    /* Once around the end of the ring, in the last and the first sector. */
    sb.tail.position = 3 * sb.ring_bytes - 4 * 512;
    sb.generation++;
    put_super(path, &sb);
    end = put_records(path, &sb, 4, 256, 0);
    assert_int_equal(recover(path, &result), RECOVERY_REPLAY);
    assert_int_equal(result.records, 4);
    end = put_records(path, &sb, 12, 384, 0); /* 4 fill the ring up to its end exactly */
    assert_int_equal(recover(path, &result), RECOVERY_REPLAY);
    assert_int_equal(result.records, 12);
    assert_int_equal(result.cut.position, end);
}

/* A journal was opened, and the superblock that said so became unreadable: the other one still
 * says CLEAN, but what was written since is found. */
static void clean_only_in_the_older_copy(void **state)
{
    const char *path = new_journal("older", MIB);
    struct recovery_result result;
    struct journal_file jf;
    struct superblock sb;

    (void)state;
    assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
    assert_int_equal(jf.sb.state, SUPER_STATE_CLEAN);
    journal_close(&jf);
    poke(path, 100, "xxxx", 4);
    assert_int_equal(journal_open(&jf, path, ATTACH_SERVE), 0);
    assert_int_equal(jf.sb.state, 0);
    sb = jf.sb;
    journal_close(&jf);
    assert_int_equal(recover(path, &result), RECOVERY_EMPTY);
    sb.state = SUPER_STATE_CLEAN;
    sb.epoch = sb.tail.epoch = 1; /* put_records writes no EPOCH record */
    put_super(path, &sb);
    put_records(path, &sb, 3, 1000, 0);
    assert_int_equal(recover(path, &result), RECOVERY_REPLAY);
    assert_int_equal(result.records, 3);
}

/* A disk that can't be read is no torn tail. */
static void unreadable_ring(void **state)
{
    const char *path = new_journal("unreadable", 12 * MIB);
    struct recovery_result result;
    struct superblock sb;

    (void)state;
    make_dirty(path, &sb);
    put_records(path, &sb, 90, 100001, 0);
    for (int nth = 1; nth <= 3; nth++) {
        struct journal_file jf;
        struct storage *inner, *s;
        struct core *core;

        assert_int_equal(storage_open_file(&inner, path, "journal", false, false, true), 0);
        s = faulty_create(inner, false);
        assert_int_equal(journal_open_storage(&jf, s, ATTACH_SERVE), 0);
        assert_int_equal(core_create(&core, &jf.sb, 16 << 20), 0);
        faulty_fail(s, FAULTY_READ_COLD, nth, EIO, false);
        words_forget();
        assert_int_equal(journal_recover(&jf, core, UINT64_MAX, NULL, NULL, NULL, &result),
                         -EIO);
        assert_int_equal(words_count("error:"), 1);
        assert_true(words_contain("can't read journal"));
        core_destroy(core);
        journal_close(&jf);
    }
}

static void damage_in_words(void **state)
{
    const char *path = new_journal("broken", 2 * MIB);
    struct recovery_result result;
    struct superblock sb;
    char words[200];

    (void)state;
    make_dirty(path, &sb);
    put_records(path, &sb, 10, 1000, 9);
    poke(path, sb.ring_start + 7 * 512 + 3 * 1152 + 500, "damage", 6);
    assert_int_equal(recover(path, &result), RECOVERY_DAMAGED);
    assert_int_equal(result.cut.lsn, 8);
    snprintf(words, sizeof(words), "the record behind lsn 8, at byte %d", 131072 + 3584 + 3456);
    assert_true(words_contain(words));
    assert_true(words_contain("up to lsn 9 was durable"));
    assert_true(words_contain("--to 8"));
    assert_int_equal(words_count("error:"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(default_size, setup),
        cmocka_unit_test_setup(created_journal, setup),
        cmocka_unit_test_setup(two_journals_differ, setup),
        cmocka_unit_test_setup(not_created_over_anything, setup),
        cmocka_unit_test_setup(no_space, setup),
        cmocka_unit_test_setup(no_journals, setup),
        cmocka_unit_test_setup(torn_superblocks, setup),
        cmocka_unit_test_setup(both_superblocks_damaged, setup),
        cmocka_unit_test_setup(other_sizes_of_superblocks, setup),
        cmocka_unit_test_setup(superblocks_in_the_wrong_place, setup),
        cmocka_unit_test_setup(superblocks_of_two_journals, setup),
        cmocka_unit_test_setup(truncated_journal, setup),
        cmocka_unit_test_setup(other_versions, setup),
        cmocka_unit_test_setup(modes, setup),
        cmocka_unit_test_setup(read_only_journal, setup),
        cmocka_unit_test_setup(recovery_of_a_file, setup),
        cmocka_unit_test_setup(clean_only_in_the_older_copy, setup),
        cmocka_unit_test_setup(unreadable_ring, setup),
        cmocka_unit_test_setup(damage_in_words, setup),
    };

    words_begin();
    disk = place_make(NULL);
    memory = place_make("/dev/shm");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
