/* survey: a journal read from end to end without changing it: what waits in it, for whom, and
 * whether every checksum is right.  What all commands begin with.
 */
#ifndef NBDJOURNAL_SURVEY_H
#define NBDJOURNAL_SURVEY_H

#include "attach.h"
#include "nbdjournal.h"
#include "staging.h"

enum journal_state {
    JOURNAL_CLEAN,        /* nothing waits: the image alone is complete */
    JOURNAL_NEEDS_REPLAY, /* not stopped cleanly; records may wait */
    JOURNAL_DAMAGED,
    JOURNAL_MOVING, /* a server writes to it, faster than it can be judged */
};

/* What waits for an image. */
struct survey_image {
    const struct image_entry *entry; /* in jf.sb */
    uint64_t records;                /* changes */
    uint64_t payload_bytes;          /* of them */
};

struct survey {
    struct journal_file jf;
    bool is_open;
    enum staging_found staging;
    enum journal_state state;
    struct recovery_result result;
    uint64_t scan_ns; /* how long the last reading of the ring took: a recovery does the same */
    struct survey_image *images; /* one for each entry of the table, in its order */
    uint64_t forgotten_records;  /* of images that the table does not know (any more) */
    bool has_moved;              /* its server wrote a superblock meanwhile */
    struct core *core;           /* with the map, if it was asked for */

    /* Set by the caller before survey_scan, or NULL: sees each valid record, once. */
    recovery_visit *visit;
    void *visit_opaque;

    /* Set by the caller: the core shall have the images and the map of what waits, for a replay.
     * Otherwise it gets a table without images, checks all and maps nothing: so looking at a
     * journal of any size takes little memory. */
    bool with_map;
};

/* Opens; errors are reported.  Then survey_close is due, whatever is returned. */
enum tool_exit survey_open(struct survey *s, const char *path, enum attach_mode mode);

/* Reads the ring.  Damage is reported, and no error: state says so.  TOOL_FAILED: I/O, memory. */
enum tool_exit survey_scan(struct survey *s);

void survey_close(struct survey *s);

/* "12 records, 48 KiB" */
#define SURVEY_TEXT_BYTES 128
const char *survey_waiting_text(uint64_t records, uint64_t payload_bytes,
                                char text[SURVEY_TEXT_BYTES]);

/* How a command ends when journal_open or storage_open_file returned this. */
enum tool_exit survey_open_exit(int error);

#endif
