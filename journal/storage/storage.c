/* storage: operations on regular files and block devices.  Opening is in storage_open.c.
 *
 * All I/O goes through the page cache, with one exception: read_cold.  After a failed fsync the
 * page cache may show bytes that the disk does not hold, so recovery must not believe it
 * (DESIGN 5.5).  A second descriptor of the same file with O_DIRECT does that; where there is
 * no such thing (tmpfs: there the page cache is the disk) the pages are dropped first.
 *
 * The size of a file never changes here.  Writing behind the end of a file that somebody
 * truncated would silently make it grow again, with a hole where data was; so the end is looked
 * up before each write (a few hundred nanoseconds beside a copy of microseconds), and it is an
 * I/O error.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "report.h"
#include "storage_file.h"

/* Alignment for direct reads: what every device up to 4 KiB sectors accepts. */
#define COLD_ALIGN 4096u

/* Of the part of a block device that is zeroed by the kernel: whole pages, so that it never has
 * to take a page of its cache apart. */
#define ZERO_ALIGN 4096u

#define ZERO_CHUNK 65536u
#define ZERO_VECTORS 16

static struct file_storage *file_of(struct storage *s)
{
    assert(s->ops == &storage_file_ops);
    return (struct file_storage *)s;
}

/* ---- read, write ---- */

static int read_all(int fd, uint8_t *buf, size_t count, uint64_t offset)
{
    while (count > 0) {
        ssize_t got = pread(fd, buf, count, offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0) /* truncated by somebody */
            return -EIO;
        buf += got;
        count -= got;
        offset += got;
    }
    return 0;
}

static int file_read(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    return read_all(s->fd, buf, count, offset);
}

/* Not with O_DIRECT: what is dirty is written, then the pages are dropped if they can be. */
static int read_cold_dropping(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    if (sync_file_range(s->fd, offset, count,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                            SYNC_FILE_RANGE_WAIT_AFTER) == -1 &&
        errno == EIO)
        return -EIO;
    posix_fadvise(s->fd, offset, count, POSIX_FADV_DONTNEED);
    return read_all(s->fd, buf, count, offset);
}

/* The last bytes of a file whose size is not aligned: a direct read of a whole block ends at
 * the end of the file. */
static int read_cold_rest(int fd, uint8_t *buf, size_t count, uint64_t offset)
{
    uint8_t block[COLD_ALIGN] __attribute__((aligned(COLD_ALIGN)));
    ssize_t got;

    do {
        got = pread(fd, block, sizeof(block), offset);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    if ((size_t)got < count)
        return -EIO;
    memcpy(buf, block, count);
    return 0;
}

static int file_read_cold(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    struct file_storage *f = file_of(s);
    size_t whole = count / COLD_ALIGN * COLD_ALIGN;
    int e;

    assert(offset % COLD_ALIGN == 0 && (uintptr_t)buf % COLD_ALIGN == 0);
    if (f->storage.direct_fd == -1 ||
        atomic_load_explicit(&f->cold_refused, memory_order_relaxed))
        return read_cold_dropping(s, buf, count, offset);

    e = read_all(f->storage.direct_fd, buf, whole, offset);
    if (e == 0 && whole < count)
        e = read_cold_rest(f->storage.direct_fd, (uint8_t *)buf + whole, count - whole,
                           offset + whole);
    if (e != -EINVAL)
        return e;
    /* Larger sectors than we align to, or a file system that changed its mind. */
    atomic_store_explicit(&f->cold_refused, true, memory_order_relaxed);
    return read_cold_dropping(s, buf, count, offset);
}

int64_t storage_length_now(int fd)
{
    struct statx now;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &now) == -1)
        return -errno;
    return now.stx_size;
}

/* 0 if the file still reaches up to `end`. */
static int file_still_reaches(struct file_storage *f, uint64_t end)
{
    int64_t length;

    if (f->storage.is_block)
        return 0;
    length = storage_length_now(f->storage.fd);
    if (length < 0)
        return length;
    if ((uint64_t)length >= end)
        return 0;
    if (!atomic_exchange(&f->shrunk_said, true))
        report_error(
            "%s was truncated to %llu bytes by somebody while it is in use (it had "
            "%llu): what lies beyond fails from now on; give it back its size and start again",
            f->path, (unsigned long long)length, (unsigned long long)f->storage.size);
    return -EIO;
}

/* Writes all vectors, whatever pieces the kernel takes. */
static int write_all(int fd, const struct iovec *iov, int iov_count, uint64_t offset)
{
    struct iovec part[ZERO_VECTORS];
    size_t skip = 0; /* of iov[0], already written */

    while (iov_count > 0) {
        int n = iov_count < ZERO_VECTORS ? iov_count : ZERO_VECTORS;
        ssize_t put;
        bool moved;

        memcpy(part, iov, n * sizeof(*part));
        part[0].iov_base = (uint8_t *)part[0].iov_base + skip;
        part[0].iov_len -= skip;
        put = pwritev(fd, part, n, offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        offset += put;
        skip += put;
        moved = put > 0;
        while (iov_count > 0 && skip >= iov->iov_len) {
            skip -= iov->iov_len;
            iov++;
            iov_count--;
            moved = true; /* also over an empty one */
        }
        if (!moved)
            return -EIO;
    }
    return 0;
}

static int file_write(struct storage *s, const struct iovec *iov, int iov_count,
                      uint64_t offset)
{
    uint64_t end = offset;
    int e;

    for (int i = 0; i < iov_count; i++)
        end += iov[i].iov_len;
    e = file_still_reaches(file_of(s), end);
    return e < 0 ? e : write_all(s->fd, iov, iov_count, offset);
}

/* ---- zero ---- */

static int write_zeroes(struct storage *s, uint64_t offset, uint64_t count)
{
    static uint8_t zeroes[ZERO_CHUNK]; /* never written */
    struct iovec iov[ZERO_VECTORS];

    while (count > 0) {
        uint64_t room = count;
        int n, e;

        for (n = 0; n < ZERO_VECTORS && room > 0; n++) {
            iov[n].iov_base = zeroes;
            iov[n].iov_len = room < ZERO_CHUNK ? room : ZERO_CHUNK;
            room -= iov[n].iov_len;
        }
        e = write_all(s->fd, iov, n, offset);
        if (e < 0)
            return e;
        offset += count - room;
        count = room;
    }
    return 0;
}

/* One way of fallocate: 1 done, 0 it can't do this here (remembered), or -errno.  EINVAL counts
 * as "can't": the arguments are right, and some file systems say it that way. */
static int try_fallocate(struct storage *s, int mode, atomic_bool *cannot, uint64_t offset,
                         uint64_t count)
{
    int r;

    if (atomic_load_explicit(cannot, memory_order_relaxed))
        return 0;
    do {
        r = fallocate(s->fd, mode | FALLOC_FL_KEEP_SIZE, offset, count);
    } while (r == -1 && errno == EINTR);
    if (r == 0)
        return 1;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL && errno != ENOTTY)
        return -errno;
    atomic_store_explicit(cannot, true, memory_order_relaxed);
    return 0;
}

/* A range that the kernel can zero without taking anything apart: any range of a file, whole
 * pages of a block device.  On a block device both ways write zeroes, or discard only if that
 * is known to zero. */
static int zero_range(struct file_storage *f, uint64_t offset, uint64_t count, bool may_punch)
{
    struct storage *s = &f->storage;
    int r = 0;

    if (count == 0)
        return 0;
    if (may_punch)
        r = try_fallocate(s, FALLOC_FL_PUNCH_HOLE, &f->no_punch, offset, count);
    if (r == 0)
        r = try_fallocate(s, FALLOC_FL_ZERO_RANGE, &f->no_zero_range, offset, count);
    if (r != 0)
        return r < 0 ? r : 0;
    if (!atomic_exchange(&f->zeroes_said, true))
        report_info("%s: it can't %s here, so zeroes are written instead (slower)", f->path,
                    may_punch ? "punch holes or zero ranges" : "zero ranges");
    return write_zeroes(s, offset, count);
}

static int file_zero(struct storage *s, uint64_t offset, uint64_t count, bool may_punch)
{
    struct file_storage *f = file_of(s);
    uint64_t end = offset + count;
    uint64_t first = offset, last = end; /* the middle that zero_range gets */
    int e = file_still_reaches(f, end);

    if (e < 0)
        return e;
    if (s->is_block) {
        uint64_t align = s->block_bytes > ZERO_ALIGN ? s->block_bytes : ZERO_ALIGN;

        first = (offset + align - 1) / align * align;
        last = end / align * align;
        if (first >= last)
            return write_zeroes(s, offset, count);
        e = write_zeroes(s, offset, first - offset);
    }
    if (e == 0)
        e = zero_range(f, first, last - first, may_punch);
    if (e == 0)
        e = write_zeroes(s, last, end - last);
    return e;
}

/* ---- barrier, hints, extents ---- */

/* An interrupted fdatasync (some network file systems) has not failed to write anything yet;
 * any other error is final (P4): the kernel may have thrown the data away. */
/* Pages whose writeback failed are clean and look well, and ext4 believes the buffers behind them: when
 * such a page is written again over space that was unwritten, the data reaches the disk and the
 * extent stays unwritten, so that it reads as zeroes after the next mount, whatever fdatasync says.
 * (Seen on Linux 6.1: tests/e2e/test-eio-then-lies.py.)  So nothing is kept of a file that failed;
 * after an error the kernel does not always wait for what is under way, which can't be dropped. */
static int file_failed(struct storage *s, int error)
{
    sync_file_range(s->fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE);
    storage_forget_clean(s);
    return -error;
}

static int file_barrier(struct storage *s)
{
    int r;

    do {
        r = fdatasync(s->fd);
    } while (r == -1 && errno == EINTR);
    return r == -1 ? file_failed(s, errno) : 0;
}

/* A hint; errors of what was started are the barrier's to report. */
static int file_submit(struct storage *s, uint64_t offset, uint64_t count)
{
    sync_file_range(s->fd, offset, count, SYNC_FILE_RANGE_WRITE);
    return 0;
}

static void file_read_ahead(struct storage *s, uint64_t offset, uint64_t count)
{
    posix_fadvise(s->fd, offset, count, POSIX_FADV_WILLNEED);
}

static int file_write_out(struct storage *s, uint64_t offset, uint64_t count)
{
    int r = sync_file_range(s->fd, offset, count,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                SYNC_FILE_RANGE_WAIT_AFTER);
    return r == -1 ? file_failed(s, errno) : 0;
}

static void file_forget(struct storage *s, uint64_t offset, uint64_t count)
{
    posix_fadvise(s->fd, offset, count, POSIX_FADV_DONTNEED);
}

/* lseek moves the position of the descriptor, which nothing here uses. */
static int file_extent(struct storage *s, uint64_t offset, enum storage_extent_kind *kind,
                       uint64_t *count)
{
    off_t data, hole;

    *kind = STORAGE_DATA;
    *count = s->size - offset;
    if (s->is_block)
        return 0;
    data = lseek(s->fd, offset, SEEK_DATA);
    if (data == -1 && errno == ENXIO) { /* nothing more up to the end */
        *kind = STORAGE_HOLE;
        return 0;
    }
    if (data == -1)
        return errno == EINVAL || errno == EOPNOTSUPP ? 0 : -errno;
    if ((uint64_t)data > offset) {
        *kind = STORAGE_HOLE;
        if ((uint64_t)data < s->size)
            *count = data - offset;
        return 0;
    }
    hole = lseek(s->fd, offset, SEEK_HOLE);
    if (hole == -1 && errno != ENXIO)
        return -errno;
    if (hole != -1 && (uint64_t)hole > offset && (uint64_t)hole < s->size)
        *count = hole - offset;
    return 0;
}

void storage_forget_clean(struct storage *s)
{
    if (s->fd != -1)
        posix_fadvise(s->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void file_close(struct storage *s)
{
    struct file_storage *f = file_of(s);

    if (f->storage.direct_fd != -1)
        close(f->storage.direct_fd);
    close(s->fd);
    free(f->path);
    free(f);
}

/* ---- size ---- */

/* Space for the part that is new, so that writing it can't fail for want of it. */
static int file_grow(struct storage *s, uint64_t size)
{
    int r;

    do {
        r = fallocate(s->fd, 0, s->size, size - s->size);
    } while (r == -1 && errno == EINTR);
    if (r == -1 && (errno == EOPNOTSUPP || errno == ENOSYS))
        r = ftruncate(s->fd, size);
    return r == -1 ? -errno : 0;
}

int storage_resize(struct storage *s, uint64_t size)
{
    uint64_t old = s->size;
    int e;

    if (s->ops != &storage_file_ops || s->is_block)
        return -ENOTSUP;
    e = size > old ? file_grow(s, size) : ftruncate(s->fd, size) == -1 ? -errno : 0;
    if (e == 0 && fsync(s->fd) == -1)
        e = -errno;
    if (e == 0)
        s->size = size;
    else if (size > old && ftruncate(s->fd, old) == -1)
        report_debug("%s: can't be cut back to %llu bytes: %s", s->name,
                     (unsigned long long)old, strerror(errno));
    return e;
}

const struct storage_ops storage_file_ops = {
    .read = file_read,
    .read_cold = file_read_cold,
    .write = file_write,
    .zero = file_zero,
    .barrier = file_barrier,
    .submit = file_submit,
    .read_ahead = file_read_ahead,
    .write_out = file_write_out,
    .forget = file_forget,
    .extent = file_extent,
    .close = file_close,
};

/* ---- for callers ---- */

int storage_read(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    return s->ops->read(s, buf, count, offset);
}

int storage_read_cold(struct storage *s, void *buf, size_t count, uint64_t offset)
{
    return s->ops->read_cold(s, buf, count, offset);
}

int storage_write(struct storage *s, const void *buf, size_t count, uint64_t offset)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = count};

    return s->ops->write(s, &iov, 1, offset);
}

int storage_writev(struct storage *s, const struct iovec *iov, int iov_count, uint64_t offset)
{
    return s->ops->write(s, iov, iov_count, offset);
}

int storage_zero(struct storage *s, uint64_t offset, uint64_t count, bool may_punch)
{
    return s->ops->zero(s, offset, count, may_punch);
}

int storage_barrier(struct storage *s)
{
    return s->ops->barrier(s);
}

int storage_submit(struct storage *s, uint64_t offset, uint64_t count)
{
    return s->ops->submit(s, offset, count);
}

void storage_read_ahead(struct storage *s, uint64_t offset, uint64_t count)
{
    s->ops->read_ahead(s, offset, count);
}

int storage_write_out(struct storage *s, uint64_t offset, uint64_t count)
{
    return s->ops->write_out != NULL ? s->ops->write_out(s, offset, count) : 0;
}

void storage_forget(struct storage *s, uint64_t offset, uint64_t count)
{
    if (s->ops->forget != NULL)
        s->ops->forget(s, offset, count);
}

int storage_extent(struct storage *s, uint64_t offset, enum storage_extent_kind *kind,
                   uint64_t *count)
{
    return s->ops->extent(s, offset, kind, count);
}

void storage_close(struct storage *s)
{
    if (s != NULL)
        s->ops->close(s);
}
