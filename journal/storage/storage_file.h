/* storage_file: what storage.c (operations) and storage_open.c (opening) share. */
#ifndef JOURNAL_STORAGE_FILE_H
#define JOURNAL_STORAGE_FILE_H

#include <stdatomic.h>

#include "storage.h"

/* A regular file or a block device. */
struct file_storage {
    struct storage storage; /* first: a struct storage * is cast to this */
    char *path;             /* storage.name */
    bool exclusive;         /* holds the lock */

    atomic_bool cold_refused; /* reading direct_fd fails: not tried again */

    /* What fallocate turned out not to do here; each is set once and only saves attempts. */
    atomic_bool no_punch;
    atomic_bool no_zero_range;
    atomic_bool zeroes_said; /* the line that zeroes are written was reported */
    atomic_bool shrunk_said; /* and the one that the file was truncated by somebody */
};

extern const struct storage_ops storage_file_ops;

#endif
