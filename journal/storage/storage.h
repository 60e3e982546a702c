/* storage: the only place with file I/O.
 *
 * A storage is a journal or an image: a regular file, a block device, (later) a remote NBD
 * export, or, in tests, a simulated or failing disk.  All functions are thread-safe and block;
 * offsets and lengths in bytes, inside [0, size); short transfers and EINTR are handled here;
 * they return 0 or -errno and report nothing: the caller knows what the operation was for
 * (storage->name names the object).
 *
 * What the layers above build on, and what a simulated storage must imitate:
 *   - when write or zero returned 0, the bytes survive the death of this process (page cache),
 *     and read shows them (P0, P7);
 *   - when barrier returned 0, everything written before it was called survives power loss
 *     (P1);
 *   - when barrier or write failed, nothing may be assumed of what they covered, and a later
 *     barrier may succeed without having written it (P4: page cache after a failed fsync);
 *   - until a barrier, after power loss each 512-byte sector written may be old, new or
 *     garbage.
 */
#ifndef JOURNAL_STORAGE_H
#define JOURNAL_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct storage;

enum storage_extent_kind { STORAGE_DATA, STORAGE_HOLE /* reads as zeroes, unallocated */ };

struct storage_ops {
    int (*read)(struct storage *s, void *buf, size_t count, uint64_t offset);
    /* Past the page cache, where the storage has one (recovery, DESIGN 5.5): dirty pages are
     * written first.  buf, count and offset aligned to 4096 (the last piece of a file may be
     * shorter). */
    int (*read_cold)(struct storage *s, void *buf, size_t count, uint64_t offset);
    int (*write)(struct storage *s, const struct iovec *iov, int iov_count, uint64_t offset);
    /* Makes the range read as zeroes, at byte precision.  may_punch: a hole is welcome; else
     * the range stays allocated.  Falls back to writing zeroes where the file system or device
     * cannot (said once). */
    int (*zero)(struct storage *s, uint64_t offset, uint64_t count, bool may_punch);
    int (*barrier)(struct storage *s); /* fdatasync */
    /* These bytes shall go to the disk now.  A file starts writing (sync_file_range, a hint); a
     * journal with staging writes them: there a barrier covers only what was submitted. */
    int (*submit)(struct storage *s, uint64_t offset, uint64_t count);
    void (*read_ahead)(struct storage *s, uint64_t offset, uint64_t count); /* a hint */
    /* NULL: there is no such thing.  What was written there goes to the disk and has come there when
     * this returns, perhaps into its cache: no barrier. */
    int (*write_out)(struct storage *s, uint64_t offset, uint64_t count);
    /* NULL, or a hint too: these bytes are not needed in memory any more. */
    void (*forget)(struct storage *s, uint64_t offset, uint64_t count);
    /* What lies at offset: kind, and how far it reaches (*count, at least 1). */
    int (*extent)(struct storage *s, uint64_t offset, enum storage_extent_kind *kind,
                  uint64_t *count);
    void (*close)(struct storage *s); /* frees it; drops its lock */
};

struct storage {
    const struct storage_ops *ops;
    const char *name; /* for messages: path or URI; owned by the storage */
    uint64_t size;    /* at open */
    bool read_only;
    bool is_block; /* a block device */
    bool is_rotational;
    /* smallest unit that is written without read-modify-write: 512..65536 */
    uint32_t block_bytes;
    /* The same file with O_DIRECT, for writing if that is allowed; -1 if there is no such thing.
     * Opened early: later this process may have given up the right to (nbdkit -u). */
    int direct_fd;
    int fd; /* -1 if there is none (remote, simulated) */
};

/* Opens a regular file or a block device.  read_only: opened so.  Not read_only: opened for
 * writing; when that is not permitted (EACCES, EPERM, EROFS) and fall_back, read-only instead
 * (storage->read_only says which).  exclusive: takes flock(LOCK_EX | LOCK_NB) on it (inherited
 * through fork, gone with the last process: nothing to clean up after kill -9) and O_EXCL on
 * block devices (refuses mounted ones); if another process has it, returns -EBUSY after a
 * report that names the holder ("... is in use by nbdkit (pid 123)", found by looking through
 * /proc for who has the same inode open).  Refuses, with a report that names the object and the
 * way out: directories, pipes, sockets, empty files (-EINVAL), sizes above 2^63-1.  Reports its
 * own errors (opening is where a person's words are wrong). */
int storage_open_file(struct storage **out, const char *path,
                      const char *role /* "image" or "journal" */, bool read_only,
                      bool fall_back, bool exclusive);

/* An image in a folder: a regular file `name` below the directory dirfd, never through a symbolic
 * link; `path` is for people.  Written if permitted, exclusive. */
int storage_open_image_at(struct storage **out, int dirfd, const char *name, const char *path);

/* True if another process has locked it (exclusive open, of a file or device that was opened
 * here without).  A moment's answer, for people. */
bool storage_in_use(const struct storage *s);

/* True if both are the same inode or the same block device (by any path). */
bool storage_same(const struct storage *a, const struct storage *b);

/* Thin wrappers so that callers read well. */
int storage_read(struct storage *s, void *buf, size_t count, uint64_t offset);
int storage_read_cold(struct storage *s, void *buf, size_t count, uint64_t offset);
int storage_write(struct storage *s, const void *buf, size_t count, uint64_t offset);
int storage_writev(struct storage *s, const struct iovec *iov, int iov_count, uint64_t offset);
int storage_zero(struct storage *s, uint64_t offset, uint64_t count, bool may_punch);
int storage_barrier(struct storage *s);
int storage_submit(struct storage *s, uint64_t offset, uint64_t count);
void storage_read_ahead(struct storage *s, uint64_t offset, uint64_t count);
int storage_write_out(struct storage *s, uint64_t offset, uint64_t count);
void storage_forget(struct storage *s, uint64_t offset, uint64_t count);
int storage_extent(struct storage *s, uint64_t offset, enum storage_extent_kind *kind,
                   uint64_t *count);
void storage_close(struct storage *s); /* NULL is allowed */

/* Clean pages leave the page cache: after a flush that failed they may show what the disk does not
 * hold.  A hint, for files and block devices. */
void storage_forget_clean(struct storage *s);

/* Gives a regular file another size, durably.  What it grows by is allocated; on error it is as
 * long as before (nbdjournal resize).  0 or -errno; -ENOTSUP: no regular file. */
int storage_resize(struct storage *s, uint64_t size);

/* The length of a regular file now, in bytes, or -errno.  For questions before each write: unlike
 * fstat it does not ask for times.  Since Linux 6.13 a time that was looked at gets a new value
 * with the next write, and where ext4 has no journal every barrier then writes the inode too: half
 * of a commit. */
int64_t storage_length_now(int fd);

#endif
