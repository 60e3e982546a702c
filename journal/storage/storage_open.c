/* storage_open: opening a file or block device, and taking it for us alone.
 *
 * flock, not fcntl locks: those belong to the process, and nbdkit forks after we open.  The
 * lock lives as long as any descriptor that came from this open: a killed server leaves nothing
 * behind, a stopped one (kill -STOP) still holds it.  Block devices are also opened O_EXCL,
 * which the kernel grants to nobody else: no second server by another device node, no mount.
 *
 * A refusal names the holder.  If nobody is seen that bears the lock, its last holder may be in
 * the middle of dying (kill -9, then start at once), or a tool looks at the file for a moment:
 * we try again for a second.  On block devices udev also takes such locks, briefly.
 *
 * Between opening and locking the path may have been given to another file (a tool that renames
 * a new journal into its place): so it is looked up again afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "holder.h"
#include "report.h"
#include "storage_file.h"

#define LOCK_TRIES 20
#define LOCK_PAUSE_MS 50
#define OPEN_TRIES 5

/* What the caller of storage_open_file asked for. */
struct wish {
    const char *path, *role;
    bool read_only, fall_back, exclusive;
    int dirfd;        /* AT_FDCWD, or the folder that it must be in */
    const char *name; /* path, or its name in the folder */
};

static bool in_folder(const struct wish *wish)
{
    return wish->dirfd != AT_FDCWD;
}

static int wish_stat(const struct wish *wish, struct stat *st)
{
    return fstatat(wish->dirfd, wish->name, st, in_folder(wish) ? AT_SYMLINK_NOFOLLOW : 0);
}

static const char *kind_words(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFCHR:
        return "a character device";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    case S_IFLNK:
        return "a symbolic link";
    case S_IFBLK:
        return "a block device";
    default:
        return "of an unknown kind";
    }
}

/* Before opening: opening a pipe could block, and O_EXCL is only for block devices. */
static int look_up(const struct wish *wish, struct stat *st)
{
    if (wish_stat(wish, st) == -1) {
        int e = errno;

        if (e == ENOENT && strcmp(wish->role, "image") == 0)
            report_error("there is no image %s: check the path, or create it (truncate -s SIZE "
                         "%s)",
                         wish->path, wish->path);
        else
            report_error("can't open %s %s: %s", wish->role, wish->path, report_reason(e));
        return -e;
    }
    if (in_folder(wish) && !S_ISREG(st->st_mode)) {
        report_error("%s %s is %s: in a folder only regular files are served", wish->role,
                     wish->path, kind_words(st->st_mode));
        return -EINVAL;
    }
    if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode)) {
        report_error("%s %s is %s: it must be a regular file or a block device", wish->role,
                     wish->path, kind_words(st->st_mode));
        return -EINVAL;
    }
    return 0;
}

/* ---- who is it? ---- */

static void report_lock_holder(const struct wish *wish, int fd)
{
    struct holder holder;

    if (!holder_find(fd, &holder))
        report_error("%s %s is in use by another process, which this user can't see (root can: "
                     "fuser -v %s)",
                     wish->role, wish->path, wish->path);
    else if (holder.pid == getpid())
        report_error("%s %s is in use by this process already: image and journal must be "
                     "different files",
                     wish->role, wish->path);
    else
        report_error("%s %s is in use by %s (pid %d): stop it first, or wait until it is done",
                     wish->role, wish->path, holder.name, (int)holder.pid);
}

/* open(O_EXCL) of a block device said EBUSY: says why.  False: it may be over in a moment. */
static bool device_holder(const struct wish *wish, dev_t device, char *out, size_t out_bytes)
{
    char mount[1024];
    struct holder holder;
    int fd;
    bool seen;

    if (holder_find_mount(device, mount, sizeof(mount))) {
        snprintf(out, out_bytes, "is mounted on %s: unmount it first", mount);
        return true;
    }
    fd = open(wish->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    seen = fd != -1 && holder_find(fd, &holder);
    if (fd != -1)
        close(fd);
    if (!seen)
        snprintf(out, out_bytes,
                 "is in use: a partition of it may be mounted, or it is swap space, part of a "
                 "volume group or RAID, or open in another program (see lsblk, fuser -v)");
    else if (holder.pid == getpid())
        snprintf(out, out_bytes,
                 "is in use by this process already: image and journal must be different "
                 "devices");
    else
        snprintf(out, out_bytes,
                 "is in use by %s (pid %d): stop it first, or wait until it is "
                 "done",
                 holder.name, (int)holder.pid);
    return seen && !holder.is_dying;
}

/* ---- opening ---- */

/* Some drivers let a read-only device be opened for writing and fail each write. */
static bool device_read_only(int fd)
{
    int read_only = 0;

    return ioctl(fd, BLKROGET, &read_only) == 0 && read_only;
}

static void pause_before_retry(void)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000};

    nanosleep(&pause, NULL);
}

/* The descriptor, or -errno. */
static int try_open(const struct wish *wish, bool is_block, bool *read_only)
{
    int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (in_folder(wish) ? O_NOFOLLOW : 0);
    int fd = -1, e = 0;

    if (wish->exclusive && is_block)
        flags |= O_EXCL;
    *read_only = wish->read_only;
    if (!wish->read_only) {
        fd = openat(wish->dirfd, wish->name, flags | O_RDWR);
        e = fd == -1 ? errno : 0;
        if (fd != -1 && is_block && device_read_only(fd)) {
            close(fd);
            fd = -1;
            e = EROFS;
        }
        if ((e == EACCES || e == EPERM || e == EROFS) && wish->fall_back)
            *read_only = true;
    }
    if (*read_only) {
        fd = openat(wish->dirfd, wish->name, flags | O_RDONLY);
        e = fd == -1 ? errno : 0;
    }
    return fd != -1 ? fd : -e;
}

/* The descriptor, or -errno, reported. */
static int open_descriptor(const struct wish *wish, const struct stat *st, bool *read_only)
{
    bool is_block = S_ISBLK(st->st_mode);
    char why[1280];

    for (int i = 0;; i++) {
        int fd = try_open(wish, is_block, read_only);

        if (fd >= 0)
            return fd;
        if (fd != -EBUSY || !is_block) {
            report_error("can't open %s %s for %s: %s", wish->role, wish->path,
                         *read_only ? "reading" : "writing", report_reason(-fd));
            return fd;
        }
        if (device_holder(wish, st->st_rdev, why, sizeof(why)) || i == LOCK_TRIES) {
            report_error("%s %s %s", wish->role, wish->path, why);
            return fd;
        }
        pause_before_retry();
    }
}

static int lock_descriptor(const struct wish *wish, int fd, bool is_block)
{
    struct holder holder;
    int e;

    for (int i = 0;; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        e = errno;
        if (e == EINTR)
            continue;
        if (e != EWOULDBLOCK || i == LOCK_TRIES ||
            (!is_block && holder_find(fd, &holder) && !holder.is_dying))
            break;
        pause_before_retry();
    }
    if (e == EWOULDBLOCK) {
        report_lock_holder(wish, fd);
        return -EBUSY;
    }
    report_error("can't lock %s %s (needed so that nobody else writes it): %s", wish->role,
                 wish->path, report_reason(e));
    return -e;
}

/* Opens and locks; -EAGAIN: the path leads to another file by now. */
static int open_once(const struct wish *wish, bool *read_only, struct stat *st)
{
    struct stat before, after;
    int e = look_up(wish, &before);
    int fd;

    if (e < 0)
        return e;
    fd = open_descriptor(wish, &before, read_only);
    if (fd < 0)
        return fd;
    if (wish->exclusive) {
        e = lock_descriptor(wish, fd, S_ISBLK(before.st_mode));
        if (e < 0)
            goto err;
    }
    if (fstat(fd, st) == -1) {
        e = -errno;
        report_error("can't look at %s %s: %s", wish->role, wish->path, report_reason(-e));
        goto err;
    }
    if ((st->st_mode & S_IFMT) != (before.st_mode & S_IFMT) || wish_stat(wish, &after) == -1 ||
        after.st_dev != st->st_dev || after.st_ino != st->st_ino) {
        e = -EAGAIN;
        goto err;
    }
    return fd;

err:
    close(fd);
    return e;
}

static int open_and_lock(const struct wish *wish, bool *read_only, struct stat *st)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        int fd = open_once(wish, read_only, st);

        if (fd != -EAGAIN)
            return fd;
    }
    report_error("%s %s keeps being replaced while it is opened: find out by whom, and try "
                 "again",
                 wish->role, wish->path);
    return -EBUSY;
}

/* ---- what it is ---- */

/* A power of two within what the format knows as a sector. */
static uint32_t usable_block(unsigned long bytes, uint32_t least)
{
    if (bytes < least || bytes > 65536 || (bytes & (bytes - 1)) != 0)
        return bytes > 65536 ? 65536 : least;
    return bytes;
}

static bool rotates(dev_t device)
{
    static const char *const places[] = {"queue", "../queue"}; /* a disk; a partition */

    for (int i = 0; i < 2; i++) {
        char path[80];
        FILE *f;
        int digit;

        snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/rotational", major(device),
                 minor(device), places[i]);
        f = fopen(path, "re");
        if (f == NULL)
            continue;
        digit = getc(f);
        fclose(f);
        return digit == '1';
    }
    return false;
}

static int measure(const struct wish *wish, const struct stat *st, struct storage *s)
{
    s->is_block = S_ISBLK(st->st_mode);
    if (s->is_block) {
        unsigned int physical = 512;
        int logical = 512;

        if (ioctl(s->fd, BLKGETSIZE64, &s->size) == -1) {
            int e = errno;

            report_error("can't tell the size of %s %s: %s", wish->role, wish->path,
                         report_reason(e));
            return -e;
        }
        ioctl(s->fd, BLKPBSZGET, &physical);
        ioctl(s->fd, BLKSSZGET, &logical);
        s->block_bytes = usable_block(physical, usable_block(logical, 512));
        s->is_rotational = rotates(st->st_rdev);
    } else {
        struct statfs fs;

        s->size = st->st_size;
        /* The page cache writes whole pages, whatever the file system says. */
        s->block_bytes = usable_block(fstatfs(s->fd, &fs) == 0 ? fs.f_bsize : 0, 4096);
        s->is_rotational = rotates(st->st_dev);
    }
    if (s->size == 0) {
        if (s->is_block)
            report_error("%s %s has no size: is anything attached to this device?", wish->role,
                         wish->path);
        else if (strcmp(wish->role, "journal") == 0)
            report_error("journal %s is empty: remove it, then create it (nbdjournal create)",
                         wish->path);
        else
            report_error("%s %s is empty: give it a size first (truncate -s SIZE %s)",
                         wish->role, wish->path, wish->path);
        return -EINVAL;
    }
    if (s->size > INT64_MAX) {
        report_error("%s %s has %llu bytes: the most is 2^63-1", wish->role, wish->path,
                     (unsigned long long)s->size);
        return -EFBIG;
    }
    return 0;
}

/* The same file again, past the page cache: through /proc, so that it is the same one whatever
 * happened to the path. */
static int open_direct(const struct storage *s)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
    return open(path, (s->read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC | O_NOCTTY);
}

static int open_wish(struct storage **out, const struct wish *wish)
{
    struct file_storage *f = calloc(1, sizeof(*f));
    struct stat st;
    int e;

    if (f == NULL || (f->path = strdup(wish->path)) == NULL) {
        free(f);
        report_error("can't open %s %s: %s", wish->role, wish->path, report_reason(ENOMEM));
        return -ENOMEM;
    }
    f->storage.direct_fd = -1;
    f->exclusive = wish->exclusive;
    f->storage.ops = &storage_file_ops;
    f->storage.name = f->path;
    f->storage.fd = e = open_and_lock(wish, &f->storage.read_only, &st);
    if (e < 0) {
        free(f->path);
        free(f);
        return e;
    }
    fcntl(f->storage.fd, F_SETFL, fcntl(f->storage.fd, F_GETFL) & ~O_NONBLOCK);
    e = measure(wish, &st, &f->storage);
    if (e < 0) {
        storage_close(&f->storage);
        return e;
    }
    if (!in_folder(wish)) /* there are many, and only a journal is used so */
        f->storage.direct_fd = open_direct(&f->storage);
    *out = &f->storage;
    return 0;
}

int storage_open_file(struct storage **out, const char *path, const char *role, bool read_only,
                      bool fall_back, bool exclusive)
{
    const struct wish wish = {path, role, read_only, fall_back, exclusive, AT_FDCWD, path};

    return open_wish(out, &wish);
}

int storage_open_image_at(struct storage **out, int dirfd, const char *name, const char *path)
{
    const struct wish wish = {path, "image", false, true, true, dirfd, name};

    return open_wish(out, &wish);
}

/* A shared lock, held for a moment: whoever wants to open exclusively in this moment tries
 * again (lock_descriptor). */
bool storage_in_use(const struct storage *s)
{
    const struct file_storage *f = (const struct file_storage *)s;

    if (s->ops != &storage_file_ops || f->exclusive)
        return false;
    if (flock(s->fd, LOCK_SH | LOCK_NB) == 0) {
        flock(s->fd, LOCK_UN);
        return false;
    }
    return errno == EWOULDBLOCK;
}

bool storage_same(const struct storage *a, const struct storage *b)
{
    struct stat x, y;

    if (a == b)
        return true;
    if (a->fd == -1 || b->fd == -1 || fstat(a->fd, &x) == -1 || fstat(b->fd, &y) == -1)
        return false;
    if (S_ISBLK(x.st_mode) || S_ISBLK(y.st_mode))
        return S_ISBLK(x.st_mode) && S_ISBLK(y.st_mode) && x.st_rdev == y.st_rdev;
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
