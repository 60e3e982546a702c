/* fuzz-nbdjournal: nbdjournal's commands on any journal.
 *
 * The input is a list of changes to a journal with content, as a killed server left it (made once, by
 * make-journal): bytes of a superblock, of a record's header, of a payload, of anything, a
 * sector moved, or the end cut off. Superblocks and headers are sealed again afterwards with
 * right checksums, unless the input says otherwise. Looking changes nothing; a replay that
 * refuses damage has changed nothing (P6); after one that succeeds the journal is clean, and
 * stays so.
 */
#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "format.h"
#include "nbdjournal.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define JOURNAL_BYTES FORMAT_JOURNAL_MIN
#define IMAGE_BYTES (256u << 10)
#define CHANGE_BYTES 6
#define RECORDS_MAX 500
#define MARKS_BYTES 4096

static char place[] = "/dev/shm/fuzz-nbdjournal.XXXXXX";
static char journal_path[64], image_path[64];
static uint8_t journal[JOURNAL_BYTES], image[IMAGE_BYTES], bytes[JOURNAL_BYTES];
static char mark_name[256];
static uint8_t mark[MARKS_BYTES];
static ssize_t mark_bytes;
static struct superblock super;
static uint64_t seed, headers[RECORDS_MAX];
static unsigned header_count;

/* What would only cost time. */
int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

int fsync(int fd)
{
    (void)fd;
    return 0;
}

/* nbdjournal.c has main, and these. */
void nbdjournal_be_quiet(bool quiet)
{
    (void)quiet;
}

enum tool_exit nbdjournal_confirm(bool yes)
{
    return yes ? TOOL_OK : TOOL_OPEN;
}

static void load(const char *path, uint8_t *out, size_t count)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || pread(fd, out, count, 0) != (ssize_t)count)
        abort();
    close(fd);
}

static void store(const char *path, const uint8_t *from, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, count) != 0 || pwrite(fd, from, count, 0) != (ssize_t)count)
        abort();
    close(fd);
}

static void clean_up(void)
{
    unlink(journal_path);
    unlink(image_path);
    rmdir(place);
}

static void find_headers(void)
{
    for (uint64_t at = super.ring_start;
         at + FORMAT_RECORD_BYTES <= JOURNAL_BYTES && header_count < RECORDS_MAX;
         at += FORMAT_UNIT) {
        if (memcmp(journal + at, "JREC", 4) == 0)
            headers[header_count++] = at;
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *build = getenv("JOURNAL_BUILD");
    char command[600];
    size_t need;

    (void)argc;
    (void)argv;
    if (mkdtemp(place) == NULL)
        abort();
    snprintf(journal_path, sizeof(journal_path), "%s/journal", place);
    snprintf(image_path, sizeof(image_path), "%s/image", place);
    atexit(clean_up);
    store(image_path, image, IMAGE_BYTES);
    snprintf(command, sizeof(command),
             "cd %s && cp image expected && "
             "%s/tests/support/make-journal journal image expected size=1M records=60 max=3000 "
             ">/dev/null && rm expected",
             place, build != NULL ? build : "build");
    if (system(command) != 0)
        abort();
    load(journal_path, journal, JOURNAL_BYTES);
    load(image_path, image, IMAGE_BYTES);
    if (listxattr(image_path, mark_name, sizeof(mark_name)) > 0)
        mark_bytes = getxattr(image_path, mark_name, mark, sizeof(mark));
    if (format_super_decode(journal, FORMAT_SUPER_BYTES, &need, &super) != FORMAT_OK &&
        format_super_decode(journal + FORMAT_SUPER_BYTES, FORMAT_SUPER_BYTES, &need, &super) !=
            FORMAT_OK)
        abort();
    seed = format_seed(super.uuid);
    find_headers();
    if (freopen("/dev/null", "w", stdout) == NULL)
        abort();
    return 0;
}

/* ---- changes ---- */

static void change(uint8_t *at, uint8_t how, uint8_t value)
{
    switch (how % 4) {
    case 0:
        *at ^= 1 << value % 8;
        break;
    case 1:
        *at = value;
        break;
    case 2:
        *at += value;
        break;
    case 3:
        memset(at, value, 8); /* the largest number, or none */
        break;
    }
}

/* The size that the file has in the end. */
static size_t obey(const uint8_t order[CHANGE_BYTES], size_t file_bytes)
{
    uint16_t offset = order[2] | order[3] << 8;
    uint64_t header = headers[offset % header_count];
    uint8_t *super_bytes = bytes + order[1] % 2 * super.super_bytes;

    switch (order[0] % 8) {
    case 0:
    case 1: /* the superblock's head, its entries */
        change(super_bytes + offset % (order[1] & 4 ? 1024 : 192), order[4], order[5]);
        break;
    case 2:
    case 3: /* a record's header */
        change(bytes + header + order[1] % (FORMAT_RECORD_BYTES - 8), order[4], order[5]);
        break;
    case 4: /* its payload */
        change(bytes + header + FORMAT_RECORD_BYTES + order[1], order[4], order[5]);
        break;
    case 5: /* anything */
        change(bytes + ((order[1] << 16 | offset) % (JOURNAL_BYTES - 8)), order[4], order[5]);
        break;
    case 6: /* a sector elsewhere */
        memcpy(bytes + order[4] % 128 * 512 + super.ring_start,
               bytes + order[1] % 128 * 512 + super.ring_start, 512);
        break;
    case 7:
        return order[1] % 4 == 0 ? offset * UINT64_C(16) : file_bytes;
    }
    return file_bytes;
}

static void seal_super(uint8_t *copy)
{
    uint32_t image_count;
    uint64_t sum = 0;

    memcpy(&image_count, copy + 84, sizeof(image_count));
    if (image_count > (FORMAT_SUPER_MIN - FORMAT_HEADER_BYTES) / FORMAT_IMAGE_BYTES)
        return;
    memcpy(copy + 4088, &sum, sizeof(sum));
    sum = format_sum(format_seed(copy + 16), copy,
                     FORMAT_HEADER_BYTES + (size_t)image_count * FORMAT_IMAGE_BYTES);
    memcpy(copy + 4088, &sum, sizeof(sum));
}

/* Each header's own, and what the next one says of it. */
static void seal_records(bool chain)
{
    uint64_t sum;

    for (unsigned i = 0; i < header_count; i++) {
        uint8_t *header = bytes + headers[i];

        if (chain && i > 0)
            memcpy(header + 40, &sum, sizeof(sum));
        sum = format_sum(seed, header, 120);
        memcpy(header + 120, &sum, sizeof(sum));
    }
}

/* ---- commands ---- */

static enum tool_exit run(enum tool_exit (*command)(int argc, char **argv), const char *option,
                          bool with_image)
{
    char name[] = "nbdjournal", option_text[16];
    char *argv[5] = {name, journal_path};
    int argc = 2;

    if (with_image)
        argv[argc++] = image_path;
    if (option != NULL) {
        snprintf(option_text, sizeof(option_text), "%s", option);
        argv[argc++] = option_text;
    }
    return command(argc, argv);
}

static void expect_unchanged(size_t file_bytes)
{
    static uint8_t now[JOURNAL_BYTES];

    load(journal_path, now, file_bytes);
    if (memcmp(now, bytes, file_bytes) != 0)
        abort();
    load(image_path, now, IMAGE_BYTES);
    if (memcmp(now, image, IMAGE_BYTES) != 0)
        abort();
}

/* One of the commands that only look; they read the ring the same way. */
static void look(size_t file_bytes, uint8_t which)
{
    static const struct {
        enum tool_exit (*command)(int argc, char **argv);
        const char *option;
        bool with_image;
    } looks[] = {{info_command, NULL, false},       {info_command, "--json", false},
                 {check_command, NULL, true},       {check_command, "--json", true},
                 {dump_command, NULL, false},       {dump_command, "--json", false},
                 {dump_command, "--datalog", false}};

    which %= sizeof(looks) / sizeof(looks[0]);
    run(looks[which].command, looks[which].option, looks[which].with_image);
    expect_unchanged(file_bytes);
}

static void replay(size_t file_bytes)
{
    enum tool_exit result = run(replay_command, NULL, true);

    if (result == TOOL_DAMAGED)
        expect_unchanged(file_bytes);
    if (result == TOOL_OK && run(check_command, NULL, false) != TOOL_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t file_bytes = JOURNAL_BYTES;

    if (size < 1)
        return 0;
    memcpy(bytes, journal, JOURNAL_BYTES);
    for (size_t at = 1; at + CHANGE_BYTES <= size; at += CHANGE_BYTES)
        file_bytes = obey(data + at, file_bytes);
    if (data[0] & 1) {
        seal_super(bytes);
        seal_super(bytes + super.super_bytes);
    }
    if (data[0] & 2)
        seal_records(data[0] & 4);
    store(journal_path, bytes, file_bytes);
    store(image_path, image, IMAGE_BYTES);
    if (mark_bytes > 0 && setxattr(image_path, mark_name, mark, mark_bytes, 0) != 0)
        abort();
    look(file_bytes, data[0] >> 3);
    replay(file_bytes);
    return 0;
}
