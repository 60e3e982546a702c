/* folder: see folder.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "report.h"

int folder_open(struct folder **out, const char *path)
{
    struct folder *folder = calloc(1, sizeof(*folder));
    int r;

    if (folder == NULL || (folder->path = strdup(path)) == NULL) {
        free(folder);
        return -ENOMEM;
    }
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd == -1) {
        r = -errno;
        report_error("can't open the folder %s: %s", path, report_reason(-r));
        folder_close(folder);
        return r;
    }
    *out = folder;
    return 0;
}

void folder_close(struct folder *folder)
{
    if (folder == NULL)
        return;
    if (folder->fd != -1)
        close(folder->fd);
    free(folder->path);
    free(folder);
}

void folder_label(const struct folder *folder, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", folder->path, name);
    for (char *p = out; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    }
}

/* ---- what is an image ---- */

/* Why a client may not say this name, or NULL. */
static const char *name_refusal(const char *name)
{
    if (*name == '\0')
        return "it is empty";
    if (strchr(name, '/') != NULL)
        return "an export name is the name of a file in the folder, without a '/'";
    if (*name == '.')
        return "files whose names begin with a dot are no exports";
    return strlen(name) > NAME_MAX ? "it is too long for the name of a file" : NULL;
}

/* Whole or half: a journal whose first superblock is torn has a second one. */
static bool is_journal(const struct folder *folder, const char *name)
{
    static const off_t places[] = {0, FORMAT_SUPER_BYTES};
    int fd =
        openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool found = false;
    char magic[8];

    if (fd == -1)
        return false;
    for (int i = 0; i < 2 && !found; i++)
        found = pread(fd, magic, sizeof(magic), places[i]) == (ssize_t)sizeof(magic) &&
                memcmp(magic, FORMAT_SUPER_MAGIC, sizeof(magic)) == 0;
    close(fd);
    return found;
}

static bool is_image(const struct folder *folder, const char *name, struct stat *st)
{
    return name_refusal(name) == NULL &&
           fstatat(folder->fd, name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode) &&
           st->st_size > 0 && !is_journal(folder, name);
}

/* ---- all of them ---- */

/* A descriptor of its own, since reading a directory moves its place. */
static DIR *open_again(const struct folder *folder)
{
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd != -1 ? fdopendir(fd) : NULL;

    if (fd != -1 && dir == NULL)
        close(fd);
    return dir;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names of the directory, sorted; the caller frees. -errno. */
static ssize_t read_names(const struct folder *folder, char ***out)
{
    DIR *dir = open_again(folder);
    size_t count = 0, room = 0;
    struct dirent *d;
    char **names = NULL;
    int r = dir != NULL ? 0 : -errno;

    while (r == 0 && (errno = 0, d = readdir(dir)) != NULL) {
        if (count == room) {
            char **more = reallocarray(names, room * 2 + 16, sizeof(*names));
            if (more == NULL) {
                r = -ENOMEM;
                break;
            }
            names = more;
            room = room * 2 + 16;
        }
        names[count] = strdup(d->d_name);
        if (names[count] == NULL)
            r = -ENOMEM;
        else
            count++;
    }
    if (r == 0)
        r = -errno;
    if (dir != NULL)
        closedir(dir);
    if (r < 0) {
        report_error("can't read the folder %s: %s", folder->path, report_reason(-r));
        while (count > 0)
            free(names[--count]);
        free(names);
        return r;
    }
    if (count > 0)
        qsort(names, count, sizeof(*names), compare_names);
    *out = names;
    return count;
}

int folder_visit(const struct folder *folder,
                 int (*visit)(void *opaque, const char *name, uint64_t bytes), void *opaque)
{
    char **names = NULL;
    ssize_t count = read_names(folder, &names);
    struct stat st;
    int r = 0;

    if (count < 0)
        return count;
    for (ssize_t i = 0; i < count; i++) {
        if (r == 0 && is_image(folder, names[i], &st))
            r = visit(opaque, names[i], st.st_size);
        free(names[i]);
    }
    free(names);
    return r;
}

/* ---- one of them ---- */

int folder_open_image(const struct folder *folder, const char *name, struct storage **out)
{
    const char *refusal = name_refusal(name);
    char label[PATH_MAX];
    int r;

    folder_label(folder, refusal != NULL ? "" : name, label);
    if (refusal != NULL) {
        char shown[64];

        snprintf(shown, sizeof(shown), "%.60s", name);
        for (char *p = shown; *p != '\0'; p++) {
            if ((unsigned char)*p < ' ' || *p == 0x7f)
                *p = '?';
        }
        report_error("export '%s' of %s is refused: %s", shown, folder->path, refusal);
        return -EINVAL;
    }
    r = storage_open_image_at(out, folder->fd, name, label);
    if (r < 0)
        return r;
    /* After opening: now it can't become another file. */
    if (is_journal(folder, name)) {
        report_error("%s is a journal, not an image: name the image's export", label);
        storage_close(*out);
        *out = NULL;
        return -EINVAL;
    }
    return 0;
}

uint64_t folder_inode(const struct folder *folder, const char *name)
{
    struct stat st;

    return fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_ino : 0;
}

struct search {
    const struct folder *folder;
    const struct image_entry *entry;
    char *name;
};

static int search_visit(void *opaque, const char *name, uint64_t bytes)
{
    struct search *s = opaque;
    struct stat st;

    (void)bytes;
    if (!is_image(s->folder, name, &st) || st.st_ino != s->entry->inode)
        return 0;
    snprintf(s->name, NAME_MAX + 1, "%s", name);
    return -EEXIST;
}

int folder_find(const struct folder *folder, const struct image_entry *entry,
                char name[NAME_MAX + 1])
{
    struct search s = {folder, entry, name};
    const char *slash = strrchr(entry->name, '/');

    if (entry->kind != IMAGE_FILE)
        return -ENOENT;
    /* Long names are cut in the table, and a file may have been renamed. */
    if (slash != NULL && search_visit(&s, slash + 1, 0) < 0)
        return 0;
    return folder_visit(folder, search_visit, &s) == -EEXIST ? 0 : -ENOENT;
}
