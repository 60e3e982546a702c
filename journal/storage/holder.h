/* holder: who has a file or block device in use, so that a refusal can name it. */
#ifndef JOURNAL_HOLDER_H
#define JOURNAL_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct holder {
    pid_t pid;
    char name[32]; /* of its program, printable */
    bool is_dying; /* it was killed, its lock will be gone in a moment */
};

/* A process that has locked the file or device behind fd exclusively (flock), by any path, fd
 * itself not counted.  False: none that this user may see. */
bool holder_find(int fd, struct holder *out);

/* Where the block device `device` is mounted.  False: nowhere that this process sees. */
bool holder_find_mount(dev_t device, char *out, size_t out_bytes);

#endif
