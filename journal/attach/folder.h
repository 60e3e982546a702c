/* folder: a directory whose regular files are images.
 *
 * A name comes from a client, so it is no path: one component, below the directory as it was
 * opened, never through a symbolic link.  No image: what is no regular file, names that begin
 * with a dot, journals, empty files.
 */
#ifndef JOURNAL_FOLDER_H
#define JOURNAL_FOLDER_H

#include <limits.h>
#include <sys/types.h>

#include "format.h"
#include "storage.h"

struct folder {
    int fd;
    char *path; /* for people */
};

/* Reported. 0 or -errno. */
int folder_open(struct folder **out, const char *path);
void folder_close(struct folder *folder); /* NULL is allowed */

/* Calls `visit` for each image, in the order of names, until it returns < 0.  0, -errno of the
 * directory (reported), or what visit returned. */
int folder_visit(const struct folder *folder,
                 int (*visit)(void *opaque, const char *name, uint64_t bytes), void *opaque);

/* DIR/NAME, for messages: what could disturb a terminal or a log is replaced. */
void folder_label(const struct folder *folder, const char *name, char out[PATH_MAX]);

/* The image of this name; every refusal is reported. */
int folder_open_image(const struct folder *folder, const char *name, struct storage **out);

/* The inode that this name leads to now; 0: none. */
uint64_t folder_inode(const struct folder *folder, const char *name);

/* Looks for the file that an entry of a journal's table is about: under its name, else among
 * all. Its name, and 0; -ENOENT.  Reports nothing. */
int folder_find(const struct folder *folder, const struct image_entry *entry,
                char name[NAME_MAX + 1]);

#endif
