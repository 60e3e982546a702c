/* create: a new journal, as a file or on a block device.
 *
 * A file is made under no name (O_TMPFILE), filled, made durable, and only then linked to its
 * path; the directory is fsynced last.  So no crash leaves half a journal, or a leftover.
 * Where a file system can't do that, the file is PATH.new first, and one that a crash left
 * there is replaced.  Linking never replaces anything, also not a symbolic link.
 *
 * All of it is allocated, and a first part is written with zeroes: extents that are allocated
 * but not written cost fdatasync a metadata commit when they are written first (390 us instead
 * of 141, DESIGN 5.15).  Writing everything would take the first start many seconds; the rest
 * is written in the background.  On btrfs the file gets the attribute "no copy on write":
 * otherwise each write allocates anew and nothing of this would help (records have checksums of
 * their own).
 *
 * Both copies of the superblock are written (generations 1 and 2), so that one bad sector does
 * not make a new journal unreadable.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "attach.h"
#include "report.h"
#include "superblocks.h"

#define MIB (UINT64_C(1) << 20)

/* Written at once, before the first start goes on: about a tenth of a second on a slow disk. */
#define FIRST_WRITTEN (16 * MIB)
#define CHUNK (1u << 20)

/* An eighth of the image, in whole MiB, at least 64 MiB and at most 1 GiB.
 *
 * At least 64 MiB: a request up to an eighth of the ring is atomic (8 MiB, more than usual
 * clients send), and a burst of writes does not have to wait for the image.
 * At most 1 GiB: recovery reads the whole ring, a second on a fast disk and ten on a slow one;
 * and it is filled in seconds anyway, then the image's own speed counts.
 * An eighth: small disks should not pay more for their journal than for themselves. */
uint64_t journal_default_size(uint64_t image_bytes)
{
    uint64_t size = (image_bytes / (8 * MIB) + (image_bytes % (8 * MIB) != 0)) * MIB;

    if (size < 64 * MIB)
        size = 64 * MIB;
    if (size > 1024 * MIB)
        size = 1024 * MIB;
    return size;
}

static int new_superblock(struct superblock *sb, uint64_t journal_bytes)
{
    uint8_t uuid[FORMAT_UUID_BYTES];
    struct timespec now;

    if (getrandom(uuid, sizeof(uuid), 0) != (ssize_t)sizeof(uuid))
        return -EIO;
    uuid[6] = (uuid[6] & 0x0f) | 0x40; /* version 4: random */
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    clock_gettime(CLOCK_REALTIME, &now);
    format_super_init(sb, uuid, journal_bytes, now.tv_sec * 1000000ull + now.tv_nsec / 1000);
    return 0;
}

static int check_size(const char *path, uint64_t journal_bytes)
{
    if (journal_bytes < FORMAT_JOURNAL_MIN) {
        report_error("can't create journal %s of %llu bytes: the least is %llu (1 MiB), room "
                     "for two superblocks and some requests of up to an eighth of the rest",
                     path, (unsigned long long)journal_bytes,
                     (unsigned long long)FORMAT_JOURNAL_MIN);
        return -EINVAL;
    }
    if (journal_bytes > FORMAT_JOURNAL_MAX) {
        report_error("can't create journal %s of %llu bytes: the most is %llu (64 TiB)", path,
                     (unsigned long long)journal_bytes, (unsigned long long)FORMAT_JOURNAL_MAX);
        return -EINVAL;
    }
    return 0;
}

/* ---- bytes ---- */

static int write_all(int fd, const uint8_t *bytes, size_t count, uint64_t offset)
{
    while (count > 0) {
        ssize_t put = pwrite(fd, bytes, count, offset);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        bytes += put;
        count -= put;
        offset += put;
    }
    return 0;
}

static int write_zeroes(int fd, uint64_t offset, uint64_t count)
{
    uint8_t *zeroes = calloc(1, CHUNK);
    int e = zeroes == NULL ? -ENOMEM : 0;

    while (e == 0 && count > 0) {
        size_t n = count < CHUNK ? count : CHUNK;

        e = write_all(fd, zeroes, n, offset);
        offset += n;
        count -= n;
    }
    free(zeroes);
    return e;
}

static int write_superblocks(int fd, struct superblock *sb)
{
    uint8_t *bytes = malloc(sb->super_bytes);
    int e = bytes == NULL ? -ENOMEM : 0;

    for (int i = 0; e == 0 && i < 2; i++) {
        sb->generation = i + 1;
        format_super_encode(sb, bytes);
        e = write_all(fd, bytes, sb->super_bytes, sb->generation % 2 * sb->super_bytes);
    }
    free(bytes);
    return e;
}

/* ---- a file ---- */

static void avoid_copy_on_write(int fd)
{
    struct statfs fs;
    int flags;

    if (fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC &&
        ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_NOCOW_FL;
        ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
}

/* Allocates the file and writes what must be written before it is used. */
static int fill_file(int fd, const char *path, struct superblock *sb, uint64_t journal_bytes)
{
    uint64_t first = sb->ring_bytes < FIRST_WRITTEN ? sb->ring_bytes : FIRST_WRITTEN;
    int r, e;

    avoid_copy_on_write(fd);
    do {
        r = fallocate(fd, 0, 0, journal_bytes);
    } while (r == -1 && errno == EINTR);
    if (r == -1 && errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    if (r == -1) {
        report_info("journal %s: the file system can't allocate space in advance, so all %llu "
                    "bytes are written now",
                    path, (unsigned long long)journal_bytes);
        first = sb->ring_bytes;
    }
    e = write_zeroes(fd, 0, sb->ring_start + first);
    if (e < 0)
        return e;
    if (ftruncate(fd, journal_bytes) == -1) /* what is behind the last whole sector */
        return -errno;
    sb->ring_written = first;
    e = write_superblocks(fd, sb);
    if (e < 0)
        return e;
    return fsync(fd) == -1 ? -errno : 0;
}

static void report_create_error(int fd, const char *path, uint64_t journal_bytes, int e)
{
    struct statvfs fs;

    if (e == -EEXIST)
        report_error("can't create journal %s: there is something of this name already: choose "
                     "another name, or look at it first (nbdjournal info)",
                     path);
    else if (e == -ENOSPC && fd != -1 && fstatvfs(fd, &fs) == 0)
        report_error("can't create journal %s of %llu bytes: no space left (%llu bytes are "
                     "free): choose a smaller size or another place (journal=, journal-size=)",
                     path, (unsigned long long)journal_bytes,
                     (unsigned long long)fs.f_bavail * fs.f_frsize);
    else
        report_error("can't create journal %s of %llu bytes: %s", path,
                     (unsigned long long)journal_bytes, report_reason(-e));
}

/* Where the file system knows no unnamed files.  A leftover of a crash is removed, unless
 * somebody is just making it. */
static int open_named(int dir, const char *temporary)
{
    for (int i = 0; i < 2; i++) {
        int fd =
            openat(dir, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd != -1 || errno != EEXIST) {
            if (fd == -1)
                return -errno;
            flock(fd, LOCK_EX | LOCK_NB);
            return fd;
        }
        fd = openat(dir, temporary, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd == -1)
            return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) == -1) {
            close(fd);
            return -EBUSY;
        }
        unlinkat(dir, temporary, 0);
        close(fd);
    }
    return -EBUSY;
}

/* Gives the complete file its name, never in the place of another. */
static int give_name(int dir, int fd, const char *temporary, const char *name)
{
    char path[40];

    if (temporary == NULL) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) == -1 ? -errno : 0;
    }
    if (renameat2(dir, temporary, dir, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(dir, temporary, dir, name, 0) == -1)
        return -errno;
    return unlinkat(dir, temporary, 0) == -1 ? -errno : 0;
}

static int create_in(int dir, const char *path, const char *name, uint64_t journal_bytes)
{
    char temporary[NAME_MAX + 1];
    bool named = false;
    struct superblock sb;
    int fd, e;

    fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd == -1 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
        if (snprintf(temporary, sizeof(temporary), "%s.new", name) >= (int)sizeof(temporary)) {
            e = -ENAMETOOLONG;
            goto out;
        }
        fd = open_named(dir, temporary);
        named = fd >= 0;
        errno = named ? 0 : -fd;
    }
    if (fd < 0) {
        e = -errno;
        fd = -1;
        goto out;
    }
    e = new_superblock(&sb, journal_bytes);
    if (e == 0)
        e = fill_file(fd, path, &sb, journal_bytes);
    if (e == 0)
        e = give_name(dir, fd, named ? temporary : NULL, name);
    if (e < 0 && named)
        unlinkat(dir, temporary, 0);
    if (e == 0 && fsync(dir) == -1) {
        e = -errno;
        unlinkat(dir, name, 0);
    }

out:
    if (e < 0)
        report_create_error(fd, path, journal_bytes, e);
    if (fd != -1)
        close(fd);
    return e;
}

static int create_regular(const char *path, uint64_t journal_bytes)
{
    char *for_dir = strdup(path), *for_name = strdup(path);
    int dir = -1, e = -ENOMEM;

    if (for_dir != NULL && for_name != NULL) {
        const char *directory = dirname(for_dir);

        dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        e = dir == -1 ? -errno : 0;
        if (dir == -1)
            report_error("can't create journal %s: can't open directory %s: %s", path,
                         directory, report_reason(-e));
        else
            e = create_in(dir, path, basename(for_name), journal_bytes);
    }
    if (dir != -1)
        close(dir);
    free(for_dir);
    free(for_name);
    return e;
}

/* ---- a block device ---- */

/* Both superblocks' place must be zeroes: file systems, partition tables, volumes and so on all
 * have something there. */
static int check_device_unused(struct storage *s)
{
    size_t count = 2 * FORMAT_SUPER_BYTES;
    uint8_t *bytes = malloc(count);
    struct superblocks found;
    bool is_used = false;
    int e = bytes == NULL ? -ENOMEM : storage_read(s, bytes, count, 0);

    for (size_t i = 0; e == 0 && i < count && !is_used; i++)
        is_used = bytes[i] != 0;
    free(bytes);
    if (e == 0 && is_used)
        e = superblocks_read(s, &found);
    if (e < 0) {
        report_error("can't create a journal on %s: can't read what is there: %s", s->name,
                     report_reason(-e));
        return e;
    }
    if (!is_used)
        return 0;
    if (found.verdict == FORMAT_OK)
        format_super_free(&found.sb);
    report_error("%s: %s is in the way of a new journal; if nobody needs it, wipe it "
                 "(blkdiscard -z, or dd if=/dev/zero), or use --force",
                 s->name, found.verdict == FORMAT_NO_MAGIC ? "what it holds" : "a journal");
    return -EEXIST;
}

static int create_on_device(const char *path, uint64_t journal_bytes, bool force)
{
    struct superblock sb;
    struct storage *s;
    int e = storage_open_file(&s, path, "journal", false, false, true);

    if (e < 0)
        return e;
    if (journal_bytes == 0)
        journal_bytes = s->size;
    e = check_size(path, journal_bytes);
    if (e < 0)
        goto out;
    if (journal_bytes > s->size) {
        report_error("can't create a journal of %llu bytes on %s: it has %llu; choose a "
                     "smaller size, or none for all of it",
                     (unsigned long long)journal_bytes, path, (unsigned long long)s->size);
        e = -EINVAL;
        goto out;
    }
    e = force ? 0 : check_device_unused(s);
    if (e < 0)
        goto out;
    /* What was there is gone for good before a new superblock can be seen beside it. */
    e = storage_zero(s, 0, 2 * FORMAT_SUPER_BYTES, false);
    if (e == 0)
        e = storage_barrier(s);
    if (e == 0)
        e = new_superblock(&sb, journal_bytes);
    if (e == 0) {
        sb.ring_written = sb.ring_bytes; /* a device has no extents */
        e = write_superblocks(s->fd, &sb);
    }
    if (e == 0)
        e = storage_barrier(s);
    if (e < 0)
        report_create_error(-1, path, journal_bytes, e);

out:
    storage_close(s);
    return e;
}

int journal_create_file(const char *path, uint64_t journal_bytes, bool force)
{
    struct stat st;
    int e;

    if (lstat(path, &st) == -1 && errno == ENOENT) {
        e = check_size(path, journal_bytes);
        return e < 0 ? e : create_regular(path, journal_bytes);
    }
    /* Through a link a device is fine (/dev/disk/by-id/...), anything else is not ours. */
    if (stat(path, &st) == 0 && S_ISBLK(st.st_mode))
        return create_on_device(path, journal_bytes, force);
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        report_error("can't create journal %s: it is a symbolic link; give the path that it "
                     "should lead to",
                     path);
        return -ELOOP;
    }
    e = lstat(path, &st) == -1 ? -errno : -EEXIST;
    report_create_error(-1, path, journal_bytes, e);
    return e;
}
