/* nbdjournal resize
 *
 * In place, on files and block devices alike:
 *
 *   1 drain: the journal is CLEAN, the images bear no mark and need no journal
 *   2 a file that grows gets its space, allocated; the ring's new part is written with zeroes
 *   3 a superblock with the new ring, into the copy that does not count: from here on the new
 *     size counts
 *   4 the same into the other copy, so that no copy is left that speaks of the old ring
 *   5 a file that shrinks is cut
 *
 * A crash between any two leaves a valid, clean journal of the old or the new size (a file may
 * be longer than its journal, which is harmless), and the same command finishes the work.
 *
 * The UUID stays: it is the same journal, and a mark that a crash left on an image stays true.
 * Then nothing old may ever be taken for a record of the new ring, although all of it still
 * stands there with good checksums.  So the new tail is beyond everything that was ever written:
 * in position (where a record was found is part of what makes it valid), in lsn and in epoch.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "staging.h"
#include "drain.h"
#include "nbdjournal.h"
#include "progress.h"
#include "report.h"
#include "size.h"
#include "super.h"
#include "survey.h"

#define WRITE_PIECE (UINT64_C(16) << 20)

struct resize_arguments {
    const char *journal;
    char **images;
    size_t image_count;
    uint64_t size;
};

static const struct argp_option options[] = {
    {.name = "size", .key = 's', .arg = "SIZE", .doc = "The new size, for example 64M or 1G"},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct resize_arguments *a = state->input;

    switch (key) {
    case 's':
        if (!size_parse(argument, &a->size) || a->size == 0)
            argp_error(state, "'%s' is no size: write for example 64M or 1G", argument);
        return 0;
    case ARGP_KEY_ARG:
        if (a->journal != NULL)
            return ARGP_ERR_UNKNOWN; /* the images come as ARGP_KEY_ARGS */
        a->journal = argument;
        return 0;
    case ARGP_KEY_ARGS:
        a->images = state->argv + state->next;
        a->image_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        if (a->journal == NULL)
            argp_error(state, "which JOURNAL is to be resized?");
        if (a->size == 0)
            argp_error(state, "which size? Add --size, for example --size 64M");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* False and reported: no journal, or not this one, can have this size. */
static bool size_fits(const struct journal_file *jf, uint64_t size)
{
    char text[SIZE_TEXT_BYTES];

    if (!create_size_allowed(size))
        return false;
    if (!jf->storage->is_block || size <= jf->storage->size)
        return true;
    report_error("%s: the device has only %s", jf->storage->name,
                 size_text_exact(jf->storage->size, text));
    return false;
}

/* Step 1. */
static enum tool_exit drain_first(const struct resize_arguments *a)
{
    struct survey s = {.with_map = true};
    struct drain drain = {0};
    char text[SURVEY_TEXT_BYTES];
    enum tool_exit result = survey_open(&s, a->journal, ATTACH_REPAIR);

    if (result == TOOL_OK && !size_fits(&s.jf, a->size))
        result = TOOL_FAILED;
    if (result == TOOL_OK)
        result = survey_scan(&s);
    if (result == TOOL_OK && s.state == JOURNAL_DAMAGED)
        result = TOOL_DAMAGED;
    if (result == TOOL_OK && s.staging == STAGING_MISSING) {
        report_error("%s: the newest records are missing: replay it first, which says what is "
                     "lost: nbdjournal replay %s",
                     a->journal, a->journal);
        result = TOOL_FAILED;
    }
    if (result == TOOL_OK)
        result = drain_open(&drain, &s, a->images, a->image_count);
    if (result == TOOL_OK)
        result = drain_run(&drain, UINT64_MAX);
    if (result == TOOL_OK && drain.records != 0)
        printf("%s: replayed %s\n", a->journal,
               survey_waiting_text(drain.records, drain.payload_bytes, text));
    drain_close(&drain);
    survey_close(&s);
    return result;
}

/* Writes the ring from what was ever written up to its new end, so that no commit has to convert
 * unwritten extents (the same as the first lap of a new journal, without its patience). */
static int write_ring(const struct journal_file *jf, uint64_t ring_bytes)
{
    uint64_t at = jf->sb.ring_written, first = at;
    int r = 0;

    progress_begin("writing");
    while (at < ring_bytes && r == 0) {
        uint64_t piece = ring_bytes - at < WRITE_PIECE ? ring_bytes - at : WRITE_PIECE;

        r = staging_prewrite(jf->storage, jf->sb.ring_start + at, piece);
        at += piece;
        progress_update(NULL, at - first, ring_bytes - first);
    }
    if (r == 0)
        r = storage_barrier(jf->storage);
    progress_end();
    if (r < 0)
        report_error("%s: writing: %s; it is as it was, only longer", jf->storage->name,
                     report_reason(-r));
    return r;
}

static int set_file_size(const struct journal_file *jf, uint64_t bytes)
{
    char text[SIZE_TEXT_BYTES];
    int r = jf->storage->is_block ? 0 : storage_resize(jf->storage, bytes);

    if (r < 0)
        report_error("%s: setting its size to %s: %s", jf->storage->name,
                     size_text(bytes, text), report_reason(-r));
    return r;
}

/* Steps 2 to 5. */
static int resize(struct journal_file *jf, uint64_t ring_bytes)
{
    struct superblock sb = jf->sb;
    uint64_t bytes = sb.ring_start + ring_bytes;
    uint64_t laps;
    int r;

    if (!super_empty_ring(jf, &sb))
        return -EOVERFLOW;
    laps = (sb.tail.position + ring_bytes - 1) / ring_bytes;
    sb.tail.position = laps * ring_bytes;
    sb.ring_bytes = sb.ring_written = ring_bytes;

    r = bytes > jf->storage->size ? set_file_size(jf, bytes) : 0;
    if (r == 0)
        r = write_ring(jf, ring_bytes);
    for (int copy = 0; copy < 2 && r == 0; copy++)
        r = super_write(jf, &sb);
    if (r == 0 && bytes < jf->storage->size)
        r = set_file_size(jf, bytes);
    return r;
}

static enum tool_exit resize_clean(const struct resize_arguments *a)
{
    struct journal_file jf;
    uint64_t ring_bytes;
    char size[SIZE_TEXT_BYTES], atomic[SIZE_TEXT_BYTES];
    int r = journal_open(&jf, a->journal, ATTACH_REPAIR);

    if (r < 0)
        return survey_open_exit(r);
    ring_bytes = (a->size - jf.sb.ring_start) / jf.sb.sector_bytes * jf.sb.sector_bytes;
    if (!(jf.sb.state & SUPER_STATE_CLEAN)) {
        report_error("%s: somebody has used it meanwhile: try again", a->journal);
        r = -EBUSY;
    } else if (ring_bytes == jf.sb.ring_bytes) {
        /* A crash may have come between steps 4 and 5. */
        if (jf.storage->size > jf.sb.ring_start + ring_bytes)
            r = set_file_size(&jf, jf.sb.ring_start + ring_bytes);
    } else {
        r = resize(&jf, ring_bytes);
    }
    if (r == 0)
        printf("%s: %s; requests up to %s are atomic\n", a->journal,
               size_text(jf.sb.ring_start + ring_bytes, size),
               size_text(staging_atomic_max(ring_bytes), atomic));
    journal_close(&jf);
    return r < 0 ? TOOL_FAILED : TOOL_OK;
}

enum tool_exit resize_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOURNAL [IMAGE...]",
        .doc = "Gives a journal another size.  First what waits in it is replayed, for which "
               "the images are found where they were last, or given as IMAGE.  It may be "
               "interrupted and repeated."};
    struct resize_arguments a = {0};
    enum tool_exit result;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    result = drain_first(&a);
    return result == TOOL_OK ? resize_clean(&a) : result;
}
