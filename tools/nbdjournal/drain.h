/* drain: everything that waits in a journal goes home, and the journal is clean: what replay
 * does, and resize before anything else.
 *
 * It drives the core's own checkpoint, in one thread, and appends nothing: a full ring is no
 * obstacle, and what recovery found stays what recovery finds until the last superblock.  So it
 * may be killed at any point and be started again: the result is the same.
 *
 * Not through the engine: that begins its session with a record of its own, behind what
 * recovery kept.  With --to, the records that are to be given up lie there, and a crash right
 * then would leave them and that record to be told apart.
 *
 *   1 what recovery found is durable (staging_settle)
 *   2 each image's mark, with the new epoch, durable
 *   3 superblock: the new epoch
 *   4 the core's checkpoint: copies, image barriers, superblock CLEAN
 *   5 staging and the images' marks are removed
 */
#ifndef NBDJOURNAL_DRAIN_H
#define NBDJOURNAL_DRAIN_H

#include "survey.h"

struct drain_image {
    struct storage *storage;
    const struct image_entry *entry; /* in survey->jf.sb */
    struct image_entry now;
    bool has_mark;
    struct core_image *core_image;
};

struct drain {
    struct survey *survey; /* opened for repair, scanned with_map; the caller's */
    struct drain_image *images;
    size_t image_count;
    struct core *core;
    uint64_t bytes_done, bytes_total; /* for the progress bar */
    uint8_t *buffer;
    uint64_t records, payload_bytes; /* afterwards: what was replayed */
};

/* Opens every image for which something waits, and those that are there of the others: `paths`
 * first, then what the table says.  Each must be the one that the journal knows.  Changes
 * nothing.  Then drain_close is due, whatever is returned. */
enum tool_exit drain_open(struct drain *d, struct survey *survey, char *const *paths,
                          size_t path_count);

/* Drains; what lies behind to_lsn (UINT64_MAX: nothing) is given up.  Changes nothing if the
 * journal is clean, but removes marks that a crash left. */
enum tool_exit drain_run(struct drain *d, uint64_t to_lsn);

void drain_close(struct drain *d);

#endif
