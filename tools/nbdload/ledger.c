/* ledger: see ledger.h. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exit_code.h"
#include "ledger.h"
#include "options.h"

#define BLOCK 4096u
#define URI_BYTES 1024u
#define BROKEN_BYTES 2048u

static const char ledger_magic[16] = "nbdload-ledger1";

/* Only read by the machine that wrote it: native numbers. */
struct ledger_head {
    char magic[16];
    uint8_t id[LEDGER_ID_BYTES];
    uint64_t event; /* the last number given */
    uint32_t disk_count;
    uint32_t complete; /* 0: its creation was interrupted */
    char broken[BROKEN_BYTES];
};

struct ledger_disk_head {
    uint64_t size, start, end;
    uint64_t entries_offset; /* in the file */
    uint64_t flushed_event;  /* when the newest answered flush was sent */
    char uri[URI_BYTES];     /* when it was created */
};

_Static_assert(sizeof(struct ledger_head) <= BLOCK, "the header is a block");
_Static_assert(sizeof(struct ledger_entry) == 40, "a ledger's size is stated in the manual");
_Static_assert(sizeof(struct ledger_disk_head) <= BLOCK, "so is a disk's");

/* ---- opening ---- */

static void complain(const struct ledger *ledger, const char *what)
{
    fprintf(stderr, "nbdload: ledger %s: %s\n", ledger->path, what);
}

static uint64_t spec_sectors(const struct ledger_spec *spec)
{
    return (spec->end - spec->start) / SECTOR;
}

static int ledger_map(struct ledger *ledger, size_t bytes)
{
    ledger->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ledger->fd, 0);
    if (ledger->map == MAP_FAILED) {
        ledger->map = NULL;
        complain(ledger, strerror(errno));
        return -1;
    }
    ledger->map_bytes = bytes;
    ledger->head = ledger->map;
    return 0;
}

static int ledger_create(struct ledger *ledger, const struct ledger_spec *specs, uint32_t count)
{
    uint64_t bytes = BLOCK * (1 + (uint64_t)count);
    struct ledger_disk_head *disk;

    for (uint32_t i = 0; i < count; i++)
        bytes += spec_sectors(&specs[i]) * sizeof(struct ledger_entry);
    if (ftruncate(ledger->fd, 0) < 0 || ftruncate(ledger->fd, bytes) < 0) {
        complain(ledger, strerror(errno));
        return -1;
    }
    if (ledger_map(ledger, bytes) < 0)
        return -1;
    if (getrandom(ledger->head->id, LEDGER_ID_BYTES, 0) != LEDGER_ID_BYTES) {
        complain(ledger, "no random numbers");
        return -1;
    }
    memcpy(ledger->head->magic, ledger_magic, sizeof ledger_magic);
    ledger->head->disk_count = count;
    bytes = BLOCK * (1 + (uint64_t)count);
    for (uint32_t i = 0; i < count; i++) {
        disk = (void *)((char *)ledger->map + BLOCK * (1 + (uint64_t)i));
        disk->size = specs[i].size;
        disk->start = specs[i].start;
        disk->end = specs[i].end;
        disk->entries_offset = bytes;
        snprintf(disk->uri, URI_BYTES, "%s", specs[i].uri);
        bytes += spec_sectors(&specs[i]) * sizeof(struct ledger_entry);
    }
    ledger->head->complete = 1;
    ledger->created = true;
    return 0;
}

/* The file is ours and whole; nothing in it is believed before. */
static bool ledger_valid(const struct ledger *ledger)
{
    const struct ledger_head *head = ledger->head;

    if (ledger->map_bytes < BLOCK ||
        memcmp(head->magic, ledger_magic, sizeof ledger_magic) != 0 || head->disk_count == 0 ||
        head->disk_count > LEDGER_DISKS_MAX ||
        ledger->map_bytes / BLOCK < 1 + head->disk_count ||
        memchr(head->broken, '\0', BROKEN_BYTES) == NULL)
        return false;
    for (uint32_t i = 0; i < head->disk_count; i++) {
        const struct ledger_disk_head *disk = (void *)((char *)ledger->map + BLOCK * (1 + i));
        if (disk->start >= disk->end || disk->end > disk->size ||
            disk->entries_offset > ledger->map_bytes ||
            disk->entries_offset % BLOCK % sizeof(uint64_t) != 0 ||
            (disk->end - disk->start) / SECTOR >
                (ledger->map_bytes - disk->entries_offset) / sizeof(struct ledger_entry))
            return false;
    }
    return true;
}

static int ledger_load(struct ledger *ledger, const struct ledger_spec *specs, uint32_t count)
{
    const struct ledger_head *head;

    if (!ledger_valid(ledger)) {
        complain(ledger, "this file is no ledger");
        return -1;
    }
    head = ledger->head;
    if (head->disk_count != count) {
        fprintf(stderr, "nbdload: ledger %s: is of %" PRIu32 " disks, %" PRIu32 " are given\n",
                ledger->path, head->disk_count, count);
        return -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct ledger_disk_head *disk = (void *)((char *)ledger->map + BLOCK * (1 + i));
        if (disk->size != specs[i].size) {
            fprintf(stderr,
                    "nbdload: ledger %s: disk %" PRIu32 " had %" PRIu64
                    " bytes, and %s has %" PRIu64 "\n",
                    ledger->path, i, disk->size, specs[i].uri, specs[i].size);
            return -1;
        }
    }
    return 0;
}

static void *memory_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static int disks_attach(struct ledger *ledger)
{
    ledger->disk_count = ledger->head->disk_count;
    ledger->disks = calloc(ledger->disk_count, sizeof *ledger->disks);
    if (ledger->disks == NULL)
        return -1;
    for (uint32_t i = 0; i < ledger->disk_count; i++) {
        struct ledger_disk *disk = &ledger->disks[i];

        disk->ledger = ledger;
        disk->number = i;
        disk->head = (void *)((char *)ledger->map + BLOCK * (1 + (uint64_t)i));
        disk->size = disk->head->size;
        disk->start = disk->head->start;
        disk->end = disk->head->end;
        disk->entries = (void *)((char *)ledger->map + disk->head->entries_offset);
        disk->sectors = (disk->end - disk->start) / SECTOR;
        disk->seen = memory_map(disk->sectors * sizeof *disk->seen);
        disk->busy = memory_map(disk->sectors / 8 + 1);
        TAILQ_INIT(&disk->flushes);
        if (disk->seen == NULL || disk->busy == NULL)
            return -1;
    }
    return 0;
}

/* A store into a hole of the file, and the file system is full. */
static void no_room(int signal)
{
    static const char text[] = "nbdload: the ledger's file system is full, or broken\n";

    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(EXIT_USAGE);
}

int ledger_open(struct ledger *ledger, const char *path, const struct ledger_spec *specs,
                uint32_t count, bool create)
{
    struct stat file;
    bool whole;

    *ledger = (struct ledger){.fd = -1, .path = strdup(path)};
    if (ledger->path == NULL)
        return -1;
    ledger->fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
    if (ledger->fd < 0 || fstat(ledger->fd, &file) < 0) {
        complain(ledger, strerror(errno));
        goto failed;
    }
    if (!S_ISREG(file.st_mode)) {
        complain(ledger, "not a regular file");
        goto failed;
    }
    if (flock(ledger->fd, LOCK_EX | LOCK_NB) < 0) {
        complain(ledger, errno == EWOULDBLOCK ? "another nbdload uses it" : strerror(errno));
        goto failed;
    }
    if (file.st_size >= BLOCK && ledger_map(ledger, file.st_size) < 0)
        goto failed;
    /* Killed while it was created: no write was sent yet. */
    whole = file.st_size > 0 &&
            (ledger->map == NULL || ledger->head->complete != 0 ||
             memcmp(ledger->head->magic, ledger_magic, sizeof ledger_magic) != 0);
    if (!whole && create) {
        if (ledger->map != NULL)
            munmap(ledger->map, ledger->map_bytes);
        ledger->map = NULL;
        if (ledger_create(ledger, specs, count) < 0)
            goto failed;
    } else if (ledger_load(ledger, specs, count) < 0) {
        goto failed;
    }
    if (disks_attach(ledger) < 0) {
        complain(ledger, "out of memory");
        goto failed;
    }
    signal(SIGBUS, no_room);
    return 0;
failed:
    ledger_close(ledger);
    return -1;
}

void ledger_close(struct ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->disk_count && ledger->disks != NULL; i++) {
        struct ledger_disk *disk = &ledger->disks[i];
        if (disk->seen != NULL)
            munmap(disk->seen, disk->sectors * sizeof *disk->seen);
        if (disk->busy != NULL)
            munmap(disk->busy, disk->sectors / 8 + 1);
    }
    free(ledger->disks);
    if (ledger->map != NULL)
        munmap(ledger->map, ledger->map_bytes);
    if (ledger->fd >= 0)
        close(ledger->fd);
    free(ledger->path);
    *ledger = (struct ledger){.fd = -1};
}

const uint8_t *ledger_id(const struct ledger *ledger)
{
    return ledger->head->id;
}

uint64_t ledger_event(struct ledger *ledger)
{
    return ++ledger->head->event;
}

const char *ledger_broken(const struct ledger *ledger)
{
    return ledger->head->broken;
}

void ledger_note_broken(struct ledger *ledger, const char *text)
{
    if (ledger->head->broken[0] == '\0')
        snprintf(ledger->head->broken, BROKEN_BYTES, "%s", text);
}

/* ---- while a load runs ---- */

static uint64_t sector_of(const struct ledger_disk *disk, uint64_t offset)
{
    assert(offset >= disk->start && offset < disk->end && offset % SECTOR == 0);
    return (offset - disk->start) / SECTOR;
}

bool ledger_busy(const struct ledger_disk *disk, uint64_t offset, uint32_t length)
{
    uint64_t first = sector_of(disk, offset);

    for (uint64_t s = first; s < first + length / SECTOR; s++) {
        if (disk->busy[s / 8] & 1u << s % 8)
            return true;
    }
    return false;
}

uint64_t ledger_write_begin(struct ledger_disk *disk, uint64_t offset, uint32_t length)
{
    uint64_t first = sector_of(disk, offset), sequence = ledger_event(disk->ledger);

    for (uint64_t s = first; s < first + length / SECTOR; s++) {
        disk->busy[s / 8] |= 1u << s % 8;
        disk->entries[s].issued = sequence;
    }
    return sequence;
}

static void flush_remember(struct ledger_flush *flush, uint64_t sector, uint64_t sequence)
{
    if (flush->superseded_count == flush->superseded_room) {
        size_t room = flush->superseded_room == 0 ? 64 : 2 * flush->superseded_room;
        void *more = realloc(flush->superseded, room * sizeof *flush->superseded);

        if (more == NULL)
            return; /* a weaker claim */
        flush->superseded = more;
        flush->superseded_room = room;
    }
    flush->superseded[flush->superseded_count++] = (struct ledger_superseded){sector, sequence};
}

/* A kill can come between any two stores, and the compiler must not choose their order. */
static void stored(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* The entry's answered version makes room for a newer one. */
static void entry_supersede(struct ledger_disk *disk, uint64_t sector)
{
    struct ledger_entry *entry = &disk->entries[sector];
    struct ledger_flush *flush;

    if (entry->answered == 0)
        return;
    if (entry->answered_at < disk->head->flushed_event) {
        entry->flushed = entry->answered;
        return;
    }
    TAILQ_FOREACH (flush, &disk->flushes, link) {
        if (flush->sent_at > entry->answered_at)
            flush_remember(flush, sector, entry->answered);
    }
}

void ledger_write_end(struct ledger_disk *disk, uint64_t offset, uint32_t length,
                      uint64_t sequence, bool answered, bool fua)
{
    uint64_t first = sector_of(disk, offset), now = answered ? ledger_event(disk->ledger) : 0;

    for (uint64_t s = first; s < first + length / SECTOR; s++) {
        struct ledger_entry *entry = &disk->entries[s];

        disk->busy[s / 8] &= ~(1u << s % 8);
        if (!answered)
            continue;
        entry_supersede(disk, s);
        stored();
        /* The answer's number first: with it and the old version the claim is weaker. */
        entry->answered_at = now;
        stored();
        entry->answered = sequence;
        entry->answered_length = length;
        stored();
        if (fua)
            entry->flushed = sequence;
    }
}

void ledger_forget_begin(struct ledger_disk *disk, uint64_t offset, uint32_t length)
{
    uint64_t first = sector_of(disk, offset);

    for (uint64_t s = first; s < first + length / SECTOR; s++) {
        disk->busy[s / 8] |= 1u << s % 8;
        disk->entries[s] = (struct ledger_entry){0};
        disk->seen[s] = 0;
    }
}

void ledger_forget_end(struct ledger_disk *disk, uint64_t offset, uint32_t length)
{
    uint64_t first = sector_of(disk, offset);

    for (uint64_t s = first; s < first + length / SECTOR; s++)
        disk->busy[s / 8] &= ~(1u << s % 8);
}

void ledger_flush_begin(struct ledger_disk *disk, struct ledger_flush *flush)
{
    flush->sent_at = ledger_event(disk->ledger);
    flush->superseded_count = 0;
    TAILQ_INSERT_TAIL(&disk->flushes, flush, link);
}

void ledger_flush_end(struct ledger_disk *disk, struct ledger_flush *flush, bool answered)
{
    TAILQ_REMOVE(&disk->flushes, flush, link);
    if (answered) {
        if (flush->sent_at > disk->head->flushed_event)
            disk->head->flushed_event = flush->sent_at;
        for (size_t i = 0; i < flush->superseded_count; i++) {
            const struct ledger_superseded *old = &flush->superseded[i];
            struct ledger_entry *entry = &disk->entries[old->sector];

            if (old->sequence > entry->flushed && old->sequence <= entry->answered)
                entry->flushed = old->sequence;
        }
    }
    free(flush->superseded);
    flush->superseded = NULL;
    flush->superseded_count = flush->superseded_room = 0;
}

void ledger_read_begin(const struct ledger_disk *disk, uint64_t offset, uint32_t length,
                       uint64_t *floors)
{
    uint64_t first = sector_of(disk, offset);

    for (uint64_t s = first; s < first + length / SECTOR; s++) {
        uint64_t answered = disk->entries[s].answered, seen = disk->seen[s];
        *floors++ = answered > seen ? answered : seen;
    }
}

bool ledger_read_end(struct ledger_disk *disk, uint64_t offset, uint32_t length,
                     const uint64_t *floors, const void *buffer, char *text, size_t size)
{
    uint64_t first = sector_of(disk, offset);
    const uint8_t *sector = buffer;
    char found[160];

    for (uint64_t i = 0; i < length / SECTOR; i++, sector += SECTOR) {
        const struct ledger_entry *entry = &disk->entries[first + i];
        struct stamp stamp = {0};
        enum stamp_state state = stamp_check(sector, ledger_id(disk->ledger), disk->number,
                                             offset + i * SECTOR, &stamp);
        /* Without a version that must be there, what was there before is right too. */
        bool old = floors[i] == 0 && state != STAMP_GOOD && state != STAMP_DAMAGED &&
                   state != STAMP_MISPLACED;

        if (entry->issued == 0 || old)
            continue;
        if (state == STAMP_DAMAGED && entry->issued > floors[i]) {
            disk->torn_reads++;
            continue;
        }
        if (state != STAMP_GOOD || stamp.sequence < floors[i] ||
            stamp.sequence > entry->issued) {
            stamp_describe(found, sizeof found, state, &stamp, sector);
            snprintf(
                text, size,
                "disk %" PRIu32 ", sector at %" PRIu64
                ": P7: a read must return the newest answered write; expected write %" PRIu64
                " to %" PRIu64 ", found %s",
                disk->number, offset + i * SECTOR, floors[i], entry->issued, found);
            return false;
        }
        if (stamp.sequence > disk->seen[first + i])
            disk->seen[first + i] = stamp.sequence;
    }
    return true;
}

/* ---- afterwards ---- */

uint64_t ledger_flushed(const struct ledger_disk *disk, const struct ledger_entry *entry)
{
    if (entry->answered != 0 && entry->answered_at < disk->head->flushed_event)
        return entry->answered;
    return entry->flushed;
}

void ledger_settle(struct ledger_disk *disk, uint64_t sector, uint64_t sequence, bool final)
{
    struct ledger_entry *entry = &disk->entries[sector];
    uint64_t flushed = ledger_flushed(disk, entry);

    if (entry->answered != sequence) {
        entry->flushed = flushed < sequence ? flushed : sequence;
        entry->answered_length = 0; /* not told */
        stored();
        /* Never an old answer's number, which a flush may have covered, with a newer version; nor a
         * version that is lost, with the number of an answer after all flushes. */
        if (sequence > entry->answered) {
            entry->answered_at = ledger_event(disk->ledger);
            stored();
            entry->answered = sequence;
        } else {
            entry->answered = sequence;
            stored();
            entry->answered_at = ledger_event(disk->ledger);
        }
        stored();
    }
    if (final)
        entry->issued = sequence;
}
