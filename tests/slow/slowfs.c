/* slowfs: a FUSE file system with one file, "disk", which takes as long as a slow disk would.
 *
 *   MOUNTPOINT/disk      the slow disk: use it directly (O_DIRECT or not: the kernel caches nothing
 *                        of it), or under losetup --direct-io=on with a file system on it
 *   MOUNTPOINT/profile   the name of the profile; write another one to change it
 *   MOUNTPOINT/stats     what was asked of the disk since the profile was set, a number a line
 *
 * The bytes are in memory and are changed when a write arrives: only time is modelled, by medium.c,
 * which serialises what one head or so many channels would.  (What a power cut does to a disk is
 * the business of other tests.)
 *
 * Two threads: one takes requests from the kernel, the other sleeps until the model has an answer.
 */
#define FUSE_USE_VERSION 35
#include <assert.h>
#include <errno.h>
#include <fuse_lowlevel.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "medium.h"

enum { INODE_ROOT = FUSE_ROOT_ID, INODE_DISK, INODE_PROFILE, INODE_STATS };

static const struct {
    fuse_ino_t inode;
    const char *name;
} files[] = {{INODE_DISK, "disk"}, {INODE_PROFILE, "profile"}, {INODE_STATS, "stats"}};

#define FILES (sizeof(files) / sizeof(files[0]))
#define TEXT_BYTES 4096u
#define SEED 1

struct slow_request {
    struct medium_request medium; /* first: it comes back as this */
    fuse_req_t fuse;
};

static struct {
    uint8_t *bytes; /* constant */
    uint64_t size;  /* constant */
    pthread_mutex_t lock;
    pthread_cond_t changed;               /* requests have come, or another profile */
    const struct medium_profile *profile; /* [lock] */
    struct medium *medium;                /* [lock] */
} slow = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

/* ---- time ---- */

static void reply(struct slow_request *r)
{
    switch (r->medium.kind) {
    case MEDIUM_READ:
        fuse_reply_buf(r->fuse, (const char *)slow.bytes + r->medium.offset, r->medium.length);
        break;
    case MEDIUM_WRITE:
        fuse_reply_write(r->fuse, r->medium.length);
        break;
    case MEDIUM_FLUSH:
        fuse_reply_err(r->fuse, 0);
        break;
    }
    free(r);
}

static void *time_passes(void *unused)
{
    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1000); /* ns */
    pthread_mutex_lock(&slow.lock);
    for (;;) {
        struct medium_request *r = medium_answered(slow.medium, clock_ns());
        uint64_t next_ns;

        if (r != NULL) {
            pthread_mutex_unlock(&slow.lock);
            reply((struct slow_request *)r);
            pthread_mutex_lock(&slow.lock);
            continue;
        }
        next_ns = medium_next_ns(slow.medium);
        if (next_ns == MEDIUM_NEVER) {
            pthread_cond_wait(&slow.changed, &slow.lock);
        } else {
            struct timespec until = {next_ns / 1000000000, next_ns % 1000000000};
            pthread_cond_timedwait(&slow.changed, &slow.lock, &until);
        }
    }
    return NULL;
}

static void submit(fuse_req_t fuse, enum medium_kind kind, uint64_t offset, uint64_t length)
{
    struct slow_request *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        fuse_reply_err(fuse, ENOMEM);
        return;
    }
    *r = (struct slow_request){.medium = {.kind = kind, .offset = offset, .length = length},
                               .fuse = fuse};
    pthread_mutex_lock(&slow.lock);
    medium_submit(slow.medium, &r->medium, clock_ns());
    pthread_cond_broadcast(&slow.changed);
    pthread_mutex_unlock(&slow.lock);
}

/* False: no such profile. */
static bool profile_set(const char *text, size_t count)
{
    char name[16] = "";
    const struct medium_profile *profile;

    if (count > 0 && text[count - 1] == '\n')
        count--;
    if (count >= sizeof(name))
        return false;
    memcpy(name, text, count);
    profile = medium_profile_find(name);
    if (profile == NULL)
        return false;
    pthread_mutex_lock(&slow.lock);
    medium_change(slow.medium, profile, clock_ns());
    slow.profile = profile;
    pthread_cond_broadcast(&slow.changed);
    pthread_mutex_unlock(&slow.lock);
    return true;
}

static size_t text_make(fuse_ino_t inode, char text[TEXT_BYTES])
{
    const struct medium_stats *s;
    int count;

    pthread_mutex_lock(&slow.lock);
    s = medium_stats_get(slow.medium);
    if (inode == INODE_PROFILE)
        count = snprintf(text, TEXT_BYTES, "%s\n", slow.profile->name);
    else
        count = snprintf(text, TEXT_BYTES,
                         "reads %" PRIu64 "\nwrites %" PRIu64 "\nflushes %" PRIu64
                         "\nread_bytes %" PRIu64 "\nwritten_bytes %" PRIu64 "\nbusy_us %" PRIu64
                         "\ncached_bytes %" PRIu64 "\n",
                         s->reads, s->writes, s->flushes, s->read_bytes, s->written_bytes,
                         s->busy_ns / 1000, s->cached_bytes);
    pthread_mutex_unlock(&slow.lock);
    return count;
}

/* ---- what the kernel asks ---- */

static struct stat attributes(fuse_ino_t inode)
{
    struct stat s = {.st_ino = inode,
                     .st_mode = inode == INODE_ROOT ? S_IFDIR | 0755 : S_IFREG | 0600,
                     .st_nlink = 1,
                     .st_blksize = 4096};

    if (inode == INODE_DISK) {
        s.st_size = slow.size;
        s.st_blocks = slow.size / 512;
    }
    return s;
}

static void slow_lookup(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry = {.attr_timeout = 3600, .entry_timeout = 3600};

    (void)parent;
    for (size_t i = 0; i < FILES; i++) {
        if (strcmp(name, files[i].name) == 0)
            entry.ino = files[i].inode;
    }
    if (entry.ino == 0) {
        fuse_reply_err(fuse, ENOENT);
        return;
    }
    entry.attr = attributes(entry.ino);
    fuse_reply_entry(fuse, &entry);
}

static void slow_getattr(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
    struct stat s = attributes(inode);

    (void)file;
    fuse_reply_attr(fuse, &s, 3600);
}

/* Truncated by a shell's ">", which changes nothing. */
static void slow_setattr(fuse_req_t fuse, fuse_ino_t inode, struct stat *attr, int which,
                         struct fuse_file_info *file)
{
    (void)attr;
    (void)which;
    slow_getattr(fuse, inode, file);
}

static void slow_readdir(fuse_req_t fuse, fuse_ino_t inode, size_t size, off_t offset,
                         struct fuse_file_info *file)
{
    char buffer[1024];
    size_t used = 0;

    (void)inode;
    (void)file;
    for (size_t i = offset; i < FILES; i++) {
        struct stat s = attributes(files[i].inode);
        size_t room = sizeof(buffer) < size ? sizeof(buffer) : size;
        size_t more =
            fuse_add_direntry(fuse, buffer + used, room - used, files[i].name, &s, i + 1);
        if (more > room - used)
            break;
        used += more;
    }
    fuse_reply_buf(fuse, buffer, used);
}

static void slow_open(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
    if (inode == INODE_ROOT) {
        fuse_reply_err(fuse, EISDIR);
        return;
    }
    file->direct_io = 1;
    fuse_reply_open(fuse, file);
}

static void slow_read(fuse_req_t fuse, fuse_ino_t inode, size_t size, off_t offset,
                      struct fuse_file_info *file)
{
    (void)file;
    if (inode == INODE_DISK) {
        if ((uint64_t)offset >= slow.size)
            size = 0;
        else if (size > slow.size - offset)
            size = slow.size - offset;
        submit(fuse, MEDIUM_READ, offset, size);
    } else {
        char text[TEXT_BYTES];
        size_t count = text_make(inode, text);
        size_t from = (size_t)offset < count ? (size_t)offset : count;
        size_t rest = count - from;

        fuse_reply_buf(fuse, text + from, rest < size ? rest : size);
    }
}

static void slow_write(fuse_req_t fuse, fuse_ino_t inode, const char *bytes, size_t size,
                       off_t offset, struct fuse_file_info *file)
{
    (void)file;
    if (inode == INODE_PROFILE) {
        if (profile_set(bytes, size))
            fuse_reply_write(fuse, size);
        else
            fuse_reply_err(fuse, EINVAL);
    } else if (inode != INODE_DISK) {
        fuse_reply_err(fuse, EPERM);
    } else if ((uint64_t)offset > slow.size || size > slow.size - offset) {
        fuse_reply_err(fuse, ENOSPC);
    } else {
        memcpy(slow.bytes + offset, bytes, size);
        submit(fuse, MEDIUM_WRITE, offset, size);
    }
}

static void slow_fsync(fuse_req_t fuse, fuse_ino_t inode, int datasync,
                       struct fuse_file_info *file)
{
    (void)datasync;
    (void)file;
    if (inode == INODE_DISK)
        submit(fuse, MEDIUM_FLUSH, 0, 0);
    else
        fuse_reply_err(fuse, 0);
}

/* Discards and zeroes take no time. */
static void slow_fallocate(fuse_req_t fuse, fuse_ino_t inode, int mode, off_t offset,
                           off_t length, struct fuse_file_info *file)
{
    (void)file;
    if (inode != INODE_DISK || (uint64_t)offset > slow.size ||
        (uint64_t)length > slow.size - offset) {
        fuse_reply_err(fuse, EINVAL);
        return;
    }
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
        if ((offset | length) % 4096 != 0 ||
            madvise(slow.bytes + offset, length, MADV_REMOVE) != 0)
            memset(slow.bytes + offset, 0, length);
    }
    fuse_reply_err(fuse, 0);
}

static void slow_init(void *unused, struct fuse_conn_info *connection)
{
    pthread_t thread;

    (void)unused;
    connection->max_background = connection->congestion_threshold = 256;
    connection->want |= connection->capable & FUSE_CAP_ASYNC_DIO;
    if (pthread_create(&thread, NULL, time_passes, NULL) != 0)
        abort();
    pthread_detach(thread);
}

static const struct fuse_lowlevel_ops operations = {
    .init = slow_init,
    .lookup = slow_lookup,
    .getattr = slow_getattr,
    .setattr = slow_setattr,
    .readdir = slow_readdir,
    .open = slow_open,
    .read = slow_read,
    .write = slow_write,
    .fsync = slow_fsync,
    .fallocate = slow_fallocate,
};

/* ---- start ---- */

static void usage(FILE *out)
{
    fputs("usage: slowfs [-p PROFILE] -s SIZE MOUNTPOINT\n"
          "Makes MOUNTPOINT/disk, a slow disk of SIZE MiB in memory, until it is unmounted.\n"
          "Write the name of a profile into MOUNTPOINT/profile; MOUNTPOINT/stats counts.\n",
          out);
    for (const struct medium_profile *p = medium_profiles; p->name != NULL; p++)
        fprintf(out, "  %-5s %s\n", p->name, p->text);
}

static bool arguments(int argc, char **argv, const char **mountpoint)
{
    int option;

    slow.profile = &medium_profiles[0];
    while ((option = getopt(argc, argv, "p:s:")) != -1) {
        if (option == 's')
            slow.size = strtoull(optarg, NULL, 10) << 20;
        else if (option == 'p')
            slow.profile = medium_profile_find(optarg);
        else
            return false;
    }
    if (slow.size == 0 || slow.profile == NULL || optind + 1 != argc)
        return false;
    *mountpoint = argv[optind];
    return true;
}

static bool memory_make(void)
{
    int fd = memfd_create("slowfs", MFD_CLOEXEC);
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&slow.changed, &attr);
    if (fd == -1 || ftruncate(fd, slow.size) == -1)
        return false;
    slow.bytes = mmap(NULL, slow.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    slow.medium = medium_create(slow.profile, slow.size, SEED);
    return slow.bytes != MAP_FAILED && slow.medium != NULL;
}

int main(int argc, char **argv)
{
    char *words[] = {argv[0], "-o", "fsname=slowfs", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, words);
    struct fuse_session *session;
    const char *mountpoint;
    int r;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (!arguments(argc, argv, &mountpoint)) {
        usage(stderr);
        return 2;
    }
    if (!memory_make()) {
        perror("slowfs: memory for the disk");
        return 1;
    }
    session = fuse_session_new(&args, &operations, sizeof(operations), NULL);
    if (session == NULL || fuse_set_signal_handlers(session) != 0 ||
        fuse_session_mount(session, mountpoint) != 0)
        return 1;
    r = fuse_session_loop(session);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    return r != 0;
}
