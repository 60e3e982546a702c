/* holder: see holder.h.
 *
 * The kernel does not tell who holds a lock when it refuses ours.  /proc/locks names the
 * process that took it, which after a fork (a daemon) is often gone.  So the descriptors of all
 * processes are looked through, and their fdinfo says which of them bear a lock.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "holder.h"

/* Reads a small file below /proc into a string; what does not fit is cut off. */
static bool read_text(const char *path, char *out, size_t out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd == -1)
        return false;
    got = read(fd, out, out_bytes - 1);
    close(fd);
    if (got < 0)
        return false;
    out[got] = '\0';
    return true;
}

static bool same_object(const struct stat *a, const struct stat *b)
{
    if (S_ISBLK(a->st_mode))
        return S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Only exclusive locks count: a shared one is somebody who looks for a moment
 * (storage_in_use).  The line is "lock: 1: FLOCK  ADVISORY  WRITE 123 fe:00:456 0 EOF". */
static bool bears_lock(pid_t pid, const char *fd_name)
{
    char path[64], text[2048];

    snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", (int)pid, fd_name);
    return read_text(path, text, sizeof(text)) &&
           strstr(text, "FLOCK  ADVISORY  WRITE") != NULL;
}

/* Has this process locked `what`?  own_fd: one of our own that does not count. */
static bool process_holds(pid_t pid, const struct stat *what, int own_fd)
{
    char path[64];
    DIR *dir;
    struct dirent *entry;
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    if (dir == NULL)
        return false;
    while (!found && (entry = readdir(dir)) != NULL) {
        struct stat st;

        if (!isdigit((unsigned char)entry->d_name[0]) ||
            (pid == getpid() && atoi(entry->d_name) == own_fd))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && same_object(what, &st))
            found = bears_lock(pid, entry->d_name);
    }
    closedir(dir);
    return found;
}

/* A killed process keeps its locks until it gets around to dying: either SIGKILL is pending, or
 * the kernel's flag PF_EXITING is set. */
static bool is_dying(pid_t pid)
{
    char path[64], text[4096];
    const char *p;
    unsigned flags = 0;
    unsigned long long own = 0, shared = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (read_text(path, text, sizeof(text)) && (p = strrchr(text, ')')) != NULL &&
        sscanf(p, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && (flags & 4) != 0)
        return true;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (!read_text(path, text, sizeof(text)))
        return true; /* gone already */
    if ((p = strstr(text, "\nSigPnd:")) != NULL)
        sscanf(p, "\nSigPnd: %llx", &own);
    if ((p = strstr(text, "\nShdPnd:")) != NULL)
        sscanf(p, "\nShdPnd: %llx", &shared);
    return ((own | shared) >> (SIGKILL - 1) & 1) != 0;
}

/* Names in mountinfo have blanks and the like as octal numbers. */
static void unescape(char *text)
{
    char *to = text;
    unsigned code;

    for (const char *p = text; *p != '\0';) {
        if (sscanf(p, "\\%3o", &code) == 1) {
            *to++ = code;
            p += 4;
        } else {
            *to++ = *p++;
        }
    }
    *to = '\0';
}

bool holder_find(int fd, struct holder *out)
{
    struct stat what;
    struct dirent *entry;
    DIR *proc;
    bool found = false;

    if (fstat(fd, &what) == -1 || (proc = opendir("/proc")) == NULL)
        return false;
    while (!found && (entry = readdir(proc)) != NULL) {
        char path[64];
        pid_t pid = atoi(entry->d_name);

        if (pid <= 0 || !process_holds(pid, &what, fd))
            continue;
        found = true;
        out->pid = pid;
        out->is_dying = is_dying(pid);
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        if (!read_text(path, out->name, sizeof(out->name)) || out->name[0] == '\0')
            strcpy(out->name, "a process");
        out->name[strcspn(out->name, "\n")] = '\0';
        for (char *p = out->name; *p != '\0'; p++) {
            if (!isprint((unsigned char)*p))
                *p = '?';
        }
    }
    closedir(proc);
    return found;
}

/* The device number in mountinfo is the block device's for most file systems; btrfs has one of
 * its own, there the source's path tells. */
bool holder_find_mount(dev_t device, char *out, size_t out_bytes)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;

    if (f == NULL)
        return false;
    while (!found && getline(&line, &room, f) != -1) {
        unsigned major_number, minor_number;
        char where[1024], source[1024];
        const char *rest = strstr(line, " - ");
        struct stat st;

        if (rest == NULL ||
            sscanf(line, "%*d %*d %u:%u %*s %1023s", &major_number, &minor_number, where) != 3)
            continue;
        found = makedev(major_number, minor_number) == device;
        if (!found && sscanf(rest, " - %*s %1023s", source) == 1 && source[0] == '/')
            found = stat(source, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == device;
        if (found) {
            unescape(where);
            snprintf(out, out_bytes, "%s", where);
        }
    }
    free(line);
    fclose(f);
    return found;
}
