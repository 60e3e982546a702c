/* staging: see staging.h. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "staging.h"

#define STAGING_DIR "/dev/shm"
#define STAGING_MAGIC 0x4754534au /* "JSTG" */
#define STAGING_PAGE 4096u
/* Half of it may wait to be submitted.  More does not help: a megabyte at a time is
 * submitted. */
#define STAGING_BYTES_MAX (64u << 20)
#define STAGING_BYTES_MIN (1u << 20)

struct staging_page {
    uint32_t magic, version;
    uint8_t uuid[FORMAT_UUID_BYTES];
    uint8_t boot[FORMAT_UUID_BYTES];
    uint32_t epoch, zero;
    uint64_t bytes, ring_start, ring_bytes;
    _Atomic uint64_t submitted;
};
_Static_assert(sizeof(struct staging_page) == 80, "the page is described in staging.h");

struct staging {
    struct storage storage; /* first: what others see */
    struct storage *file;
    struct staging *previous; /* attached, settled: readers may still be in it */
    int direct_fd;            /* the journal, O_DIRECT; -1 if attached for looking only */
    bool attached;            /* left by a dead server; nothing is appended */
    bool
        /* attached, settled, and nothing can be staged: the file is all there is */
        passthrough;
    struct staging_page *page;
    uint8_t *slots; /* right behind the page */
    size_t mapped;
    uint64_t start; /* of this epoch: what is before it is on disk; attached: the tail */
    _Atomic uint64_t claimed; /* end of the newest record that is, or is being, copied */
    char path[128];
};

static struct staging *staging_of(struct storage *s);

static void staging_path(char out[128], const uint8_t uuid[FORMAT_UUID_BYTES])
{
    char text[37];

    format_uuid_text(uuid, text);
    snprintf(out, 128, STAGING_DIR "/nbdkit-journal-%s", text);
}

static int read_boot_id(uint8_t out[FORMAT_UUID_BYTES])
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), digits = 0;
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    memset(out, 0, FORMAT_UUID_BYTES);
    for (ssize_t i = 0; i < n && digits < 32; i++) {
        char *end, pair[2] = {text[i], 0};
        unsigned long nibble = strtoul(pair, &end, 16);
        if (end == pair)
            continue;
        out[digits / 2] |= digits % 2 ? nibble : nibble << 4;
        digits++;
    }
    return digits == 32 ? 0 : -ENODATA;
}

/* ---- the storage that stages ---- */

/* What is left out behind a commit at most (core/gap.c).  It is passed over without being submitted, and
 * the tail may come to stand behind it before anything else is. */
static uint64_t gap_max(const struct staging_page *page)
{
    return page->bytes / 8;
}

/* Virtual positions at or after this are in memory (if they are below the newest). */
static uint64_t staged_from(const struct staging *g, uint64_t claimed)
{
    uint64_t window = g->page->bytes / 2;

    if (g->attached)
        return atomic_load(&g->page->submitted);
    return claimed > g->start + window ? claimed - window : g->start;
}

/* The oldest position that somebody may ask for.  The place of a newer one can be the same only
 * a whole ring later: memory must not hide the tail when the ring is nearly full. */
static uint64_t oldest(const struct staging *g, uint64_t from)
{
    return g->attached ? g->start : from;
}

/* The position at or after `base` whose byte is at `offset` of the file. */
static uint64_t position_of(const struct staging *g, uint64_t base, uint64_t offset)
{
    uint64_t ring = g->page->ring_bytes, at = offset - g->page->ring_start;

    return base + (at + ring - base % ring) % ring;
}

static bool in_ring(const struct staging *g, uint64_t offset)
{
    return offset >= g->page->ring_start;
}

/* Copies between memory and the slots of [position, position + count), which may wrap. */
static void slots_copy(struct staging *g, uint64_t position, void *buf, size_t count, bool in)
{
    uint8_t *bytes = buf;

    while (count > 0) {
        size_t at = position % g->page->bytes, n = g->page->bytes - at;
        if (n > count)
            n = count;
        if (in)
            memcpy(g->slots + at, bytes, n);
        else
            memcpy(bytes, g->slots + at, n);
        bytes += n;
        position += n;
        count -= n;
    }
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* From `position` on, so many bytes are in the same place: in memory, [from, to), or not. */
static uint64_t run_of(const struct staging *g, uint64_t position, uint64_t from, uint64_t to)
{
    uint64_t end = oldest(g, from) + g->page->ring_bytes;

    if (position < from)
        return from - position;
    return (position < to ? min(to, end) : end) - position;
}

static int read_overlaid(struct staging *g, void *buf, size_t count, uint64_t offset,
                         int (*from_file)(struct storage *, void *, size_t, uint64_t))
{
    uint8_t *bytes = buf;

    while (count > 0) {
        uint64_t claimed = atomic_load(&g->claimed), from = staged_from(g, claimed);
        uint64_t to = g->attached ? from + g->page->bytes : claimed, position = 0;
        size_t n = count;
        bool staged = false;
        int r;

        if (in_ring(g, offset)) {
            position = position_of(g, oldest(g, from), offset);
            staged = position >= from && position < to;
            n = min(n, run_of(g, position, from, to));
        } else if (n > g->page->ring_start - offset) {
            n = g->page->ring_start - offset;
        }
        if (staged) {
            slots_copy(g, position, bytes, n, false);
        } else {
            r = from_file(g->file, bytes, n, offset);
            if (r < 0)
                return r;
        }
        bytes += n;
        offset += n;
        count -= n;
    }
    return 0;
}

static int staging_read(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    struct staging *g = staging_of(s);

    if (g->passthrough)
        return storage_read(g->file, buf, count, offset);
    return read_overlaid(g, buf, count, offset, storage_read);
}

/* Reading past the page cache wants aligned pieces; an overlay's edges are whole sectors,
 * which may be smaller.  So the file is read whole, and what is staged is laid over it. */
static int staging_read_cold(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    struct staging *g = staging_of(s);
    uint64_t from = staged_from(g, atomic_load(&g->claimed));
    uint64_t to = g->attached ? from + g->page->bytes : atomic_load(&g->claimed);
    uint8_t *bytes = buf;
    int r = storage_read_cold(g->file, buf, count, offset);

    for (size_t done = 0; r == 0 && done < count;) {
        uint64_t position, n = count - done;
        if (!in_ring(g, offset + done)) {
            done += n < g->page->ring_start - (offset + done)
                        ? n
                        : g->page->ring_start - (offset + done);
            continue;
        }
        position = position_of(g, oldest(g, from), offset + done);
        n = min(n, run_of(g, position, from, to));
        if (position >= from && position < to)
            slots_copy(g, position, bytes + done, n, false);
        done += n;
    }
    return r;
}

static int staging_write(struct storage *s, const struct iovec *iov, int iov_count,
                         uint64_t offset)
{
    struct staging *g = staging_of(s);
    uint64_t submitted = atomic_load(&g->page->submitted), position, end, claimed;

    if (g->passthrough || !in_ring(g, offset))
        return storage_writev(g->file, iov, iov_count, offset);
    assert(!g->attached);
    position = end = position_of(g, submitted, offset);
    for (int i = 0; i < iov_count; i++)
        end += iov[i].iov_len;
    /* And a gap. */
    assert(end - submitted <= g->page->bytes / 2 + gap_max(g->page));
    claimed = atomic_load(&g->claimed);
    while (claimed < end && !atomic_compare_exchange_weak(&g->claimed, &claimed, end))
        ;
    for (int i = 0; i < iov_count; i++) {
        slots_copy(g, position, iov[i].iov_base, iov[i].iov_len, true);
        position += iov[i].iov_len;
    }
    return 0;
}

/* Writing behind the end of a journal that somebody truncated would make it grow again, with a
 * hole where records were (P4). */
static int check_length(const struct staging *g)
{
    int64_t length = g->storage.is_block ? INT64_MAX : storage_length_now(g->direct_fd);

    if (length >= 0 && (uint64_t)length < g->storage.size) {
        report_error(
            "journal %s was truncated to %llu bytes by somebody while it is in use (it "
            "had %llu): give it back its size and start again",
            g->storage.name, (unsigned long long)length, (unsigned long long)g->storage.size);
        return -EIO;
    }
    return 0;
}

static int write_direct(struct staging *g, const void *bytes, size_t count, uint64_t offset)
{
    int r = check_length(g);

    if (r < 0)
        return r;
    while (count > 0) {
        ssize_t n = pwrite(g->direct_fd, bytes, count, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        bytes = (const uint8_t *)bytes + n;
        offset += n;
        count -= n;
    }
    return 0;
}

/* In order, one at a time: the core's core_submit_begin.  What is passed over is a gap, in which
 * there is no record. */
static int staging_submit(struct storage *s, uint64_t offset, uint64_t count)
{
    struct staging *g = staging_of(s);
    uint64_t submitted = atomic_load(&g->page->submitted);
    uint64_t position = position_of(g, submitted, offset), end = position + count;

    if (g->passthrough)
        return storage_submit(g->file, offset, count);
    assert(end - submitted <= g->page->bytes / 2 + gap_max(g->page));
    while (position < end) {
        uint64_t at = position % g->page->bytes, n = g->page->bytes - at;
        int r;
        if (n > end - position)
            n = end - position;
        r = write_direct(g, g->slots + at, n, offset);
        if (r < 0)
            return r;
        position += n;
        offset += n;
        /* After a kill the next start takes it from the disk.  Not before it is there. */
        atomic_store(&g->page->submitted, position);
    }
    return 0;
}

static int staging_barrier(struct storage *s)
{
    return storage_barrier(staging_of(s)->file);
}

static void staging_read_ahead(struct storage *s, uint64_t offset, uint64_t count)
{
    storage_read_ahead(staging_of(s)->file, offset, count);
}

static void staging_forget(struct storage *s, uint64_t offset, uint64_t count)
{
    storage_forget(staging_of(s)->file, offset, count);
}

static int staging_extent(struct storage *s, uint64_t offset, enum storage_extent_kind *kind,
                          uint64_t *count)
{
    *kind = STORAGE_DATA;
    *count = s->size - offset;
    return 0;
}

/* Frees all but the file below. */
static void staging_dismiss(struct staging *g)
{
    if (g->previous != NULL)
        staging_dismiss(g->previous);
    if (g->page != NULL)
        munmap(g->page, g->mapped);
    if (g->direct_fd >= 0)
        close(g->direct_fd);
    free(g);
}

static void staging_close(struct storage *s)
{
    struct staging *g = staging_of(s);

    storage_close(g->file);
    staging_dismiss(g);
}

static const struct storage_ops staging_ops = {
    .read = staging_read,
    .read_cold = staging_read_cold,
    .write = staging_write,
    .barrier = staging_barrier,
    .submit = staging_submit,
    .read_ahead = staging_read_ahead,
    .forget = staging_forget,
    .extent = staging_extent,
    .close = staging_close,
};

static bool is_staging(const struct storage *s)
{
    return s->ops == &staging_ops;
}

static struct staging *staging_of(struct storage *s)
{
    assert(is_staging(s));
    return (struct staging *)s;
}

/* ---- making and finding ---- */

static struct staging *staging_new(struct storage *file, const struct superblock *sb)
{
    struct staging *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->storage = *file;
    g->storage.ops = &staging_ops;
    g->file = file;
    g->direct_fd = -1;
    staging_path(g->path, sb->uuid);
    return g;
}

static int map_slots(struct staging *g, int fd, uint64_t bytes, int protection)
{
    void *at;

    g->mapped = STAGING_PAGE + bytes;
    at = mmap(NULL, g->mapped, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    g->page = at;
    g->slots = (uint8_t *)at + STAGING_PAGE;
    return 0;
}

static int open_direct(struct storage *file, int *fd)
{
    if (file->direct_fd < 0)
        return -ENOTSUP;
    *fd = fcntl(file->direct_fd, F_DUPFD_CLOEXEC, 0);
    return *fd < 0 ? -errno : 0;
}

/* Is this the staging of that journal, of its last epoch, made by who may make it? */
static bool page_fits(const struct staging_page *page, const struct superblock *sb,
                      const struct stat *shm)
{
    uint64_t submitted = atomic_load(&page->submitted);

    /* Root looks for what the other user of nbdkit -u made: the superblock says who. */
    if (shm->st_uid != geteuid() && shm->st_uid != 0 && shm->st_uid != sb->staging_uid)
        return false;
    return page->magic == STAGING_MAGIC && page->version == 1 &&
           memcmp(page->uuid, sb->uuid, FORMAT_UUID_BYTES) == 0 &&
           memcmp(page->boot, sb->staging_boot, FORMAT_UUID_BYTES) == 0 &&
           /* One more: killed between the new file and the superblock of its epoch. */
           (page->epoch == sb->epoch || page->epoch == sb->epoch + 1) &&
           page->ring_start == sb->ring_start && page->ring_bytes == sb->ring_bytes &&
           page->bytes == (uint64_t)shm->st_size - STAGING_PAGE &&
           page->bytes <= page->ring_bytes && submitted % sb->sector_bytes == 0 &&
           submitted + gap_max(page) >= sb->tail.position &&
           submitted <= sb->tail.position + sb->ring_bytes;
}

int staging_attach(struct storage **journal, const struct superblock *sb,
                   enum staging_found *found)
{
    uint8_t boot[FORMAT_UUID_BYTES];
    struct staging *g = NULL;
    struct stat shm;
    int fd = -1, r = 0;

    *found = STAGING_UNUSED;
    if (sb->staging_bytes == 0 || (sb->state & SUPER_STATE_CLEAN) || read_boot_id(boot) < 0 ||
        memcmp(boot, sb->staging_boot, FORMAT_UUID_BYTES) != 0)
        return 0;
    *found = STAGING_MISSING;
    g = staging_new(*journal, sb);
    if (g == NULL)
        return -ENOMEM;
    g->attached = true;
    g->start = sb->tail.position;
    fd = open(g->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        r = errno == ENOENT ? 0 : -errno;
        goto out;
    }
    if (fstat(fd, &shm) < 0 || !S_ISREG(shm.st_mode) || shm.st_size <= STAGING_PAGE)
        goto out;
    r = map_slots(g, fd, shm.st_size - STAGING_PAGE, PROT_READ);
    if (r < 0)
        goto out;
    if (page_fits(g->page, sb, &shm)) {
        *found = STAGING_FOUND;
        *journal = &g->storage;
        g = NULL;
    }
out:
    if (r < 0)
        report_error(
            "journal %s: the memory file with its newest records, %s, can't be read: %s",
            (*journal)->name, g->path, report_reason(-r));
    if (fd >= 0)
        close(fd);
    if (g != NULL)
        staging_dismiss(g);
    return r;
}

int staging_settle(struct storage *journal, uint64_t position)
{
    struct staging *g;
    uint64_t at;
    int r = 0;

    if (!is_staging(journal))
        return storage_barrier(journal);
    g = staging_of(journal);
    assert(g->attached);
    at = atomic_load(&g->page->submitted);
    if (at < g->start)
        at = g->start; /* the tail, behind a gap */
    while (r == 0 && at < position) {
        uint64_t slot = at % g->page->bytes, place = at % g->page->ring_bytes;
        uint64_t n = position - at;
        if (n > g->page->bytes - slot)
            n = g->page->bytes - slot;
        if (n > g->page->ring_bytes - place)
            n = g->page->ring_bytes - place;
        r = storage_write(g->file, g->slots + slot, n, g->page->ring_start + place);
        at += n;
    }
    return r < 0 ? r : storage_barrier(g->file);
}

/* A complete staging file under its name, reserved to the last byte (a full tmpfs would be
 * SIGBUS). */
static int make_file(struct staging *g, const struct superblock *sb, uint32_t epoch,
                     uint64_t start, uint64_t bytes, const uint8_t boot[FORMAT_UUID_BYTES])
{
    char fresh[sizeof(g->path) + 8];
    int fd, r;

    snprintf(fresh, sizeof(fresh), "%s.new", g->path);
    unlink(fresh); /* of a start that was killed */
    fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = -posix_fallocate(fd, 0, STAGING_PAGE + bytes);
    if (r == 0)
        r = map_slots(g, fd, bytes, PROT_READ | PROT_WRITE);
    close(fd);
    if (r == 0) {
        *g->page = (struct staging_page){.magic = STAGING_MAGIC,
                                         .version = 1,
                                         .epoch = epoch,
                                         .bytes = bytes,
                                         .ring_start = sb->ring_start,
                                         .ring_bytes = sb->ring_bytes,
                                         .submitted = start};
        memcpy(g->page->uuid, sb->uuid, FORMAT_UUID_BYTES);
        memcpy(g->page->boot, boot, FORMAT_UUID_BYTES);
        if (rename(fresh, g->path) < 0)
            r = -errno;
    }
    if (r < 0)
        unlink(fresh);
    return r;
}

/* Largest power of two that is not above the ring's half. */
static uint64_t bytes_wanted(uint64_t ring_bytes)
{
    uint64_t bytes = STAGING_BYTES_MAX;

    while (bytes > ring_bytes / 2)
        bytes /= 2;
    return bytes;
}

uint32_t staging_atomic_max(uint64_t ring_bytes)
{
    uint64_t staged = bytes_wanted(ring_bytes) / 8, max = format_atomic_max(ring_bytes);

    return staged < max ? staged : max;
}

/* The largest that fits in /dev/shm, too. */
static int make_largest(struct staging *g, const struct superblock *sb, uint32_t epoch,
                        uint64_t start, const uint8_t boot[FORMAT_UUID_BYTES])
{
    uint64_t bytes = bytes_wanted(sb->ring_bytes);
    int r = -ENOSPC;

    for (; bytes >= STAGING_BYTES_MIN / 4 && r == -ENOSPC; bytes /= 2)
        r = make_file(g, sb, epoch, start, bytes, boot);
    return r;
}

int staging_begin(struct storage **journal, const struct superblock *sb, uint32_t epoch,
                  uint64_t start, uint64_t *bytes, uint8_t boot[FORMAT_UUID_BYTES])
{
    struct storage *file = *journal;
    struct staging *g, *previous = NULL;
    int r;

    *bytes = 0;
    if (is_staging(file)) { /* all of it is settled */
        previous = staging_of(file);
        assert(previous->attached);
        file = previous->file;
    }
    g = staging_new(file, sb);
    if (g == NULL)
        return -ENOMEM;
    r = read_boot_id(boot);
    if (r == 0)
        r = sb->sector_bytes % STAGING_PAGE != 0 ? -ENOTSUP : open_direct(file, &g->direct_fd);
    if (r == 0)
        r = make_largest(g, sb, epoch, start, boot);
    if (r < 0) {
        report_info("%s: commits go through the page cache, since direct I/O or %s can't be "
                    "used: %s",
                    file->name, g->path, strerror(-r));
        unlink(g->path);
        staging_dismiss(g);
        if (previous != NULL)
            previous->passthrough = true;
        memset(boot, 0, FORMAT_UUID_BYTES);
        return 0;
    }
    g->previous = previous;
    g->start = start;
    atomic_store(&g->claimed, start);
    *bytes = g->page->bytes;
    *journal = &g->storage;
    return 0;
}

static bool is_direct(struct storage *journal)
{
    return is_staging(journal) && staging_of(journal)->direct_fd >= 0;
}

/* Past the page cache where there is staging: a dirty page would be in the way of the direct
 * write that follows. */
int staging_prewrite(struct storage *journal, uint64_t offset, uint64_t count)
{
    const size_t piece = 1u << 20;
    void *zeroes;
    int r = 0;

    if (posix_memalign(&zeroes, STAGING_PAGE, piece) != 0)
        return -ENOMEM;
    memset(zeroes, 0, piece);
    while (r == 0 && count > 0) {
        size_t n = count < piece ? count : piece;
        r = is_direct(journal) ? write_direct(staging_of(journal), zeroes, n, offset)
                               : storage_write(journal, zeroes, n, offset);
        offset += n;
        count -= n;
    }
    free(zeroes);
    return r;
}

void staging_remove(struct storage *journal)
{
    if (is_staging(journal))
        unlink(staging_of(journal)->path);
}
