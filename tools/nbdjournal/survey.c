/* survey: see survey.h.
 *
 * A running server is no obstacle and no reason to be wrong.  Its ring moves while it is read:
 * what was space when the superblock was read may be reused when the scan gets there, and a
 * record that is being copied looks torn in front of later ones that are whole, or even say
 * that it is durable.  So when the superblock changed meanwhile the scan begins anew, and
 * damage is believed only when it was seen at the same place twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "progress.h"
#include "report.h"
#include "size.h"
#include "survey.h"

#define ATTEMPTS_MAX 20
#define ATTEMPT_PAUSE_NS 50000000

enum tool_exit survey_open_exit(int error)
{
    return error == 0 ? TOOL_OK : error == -EUCLEAN ? TOOL_DAMAGED : TOOL_FAILED;
}

static int counters_create(struct survey *s)
{
    free(s->images);
    s->images = calloc(s->jf.sb.image_count + 1, sizeof(*s->images));
    if (s->images == NULL) {
        report_error("%s: %s", s->jf.storage->name, report_reason(ENOMEM));
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < s->jf.sb.image_count; i++)
        s->images[i].entry = &s->jf.sb.images[i];
    return 0;
}

/* With what a dead server left in memory laid over the ring. */
static int open_staged(struct survey *s, const char *path, enum attach_mode mode)
{
    int r = journal_open(&s->jf, path, mode);

    if (r < 0)
        return r;
    s->is_open = true;
    r = staging_attach(&s->jf.storage, &s->jf.sb, &s->staging);
    return r < 0 ? r : counters_create(s);
}

enum tool_exit survey_open(struct survey *s, const char *path, enum attach_mode mode)
{
    return survey_open_exit(open_staged(s, path, mode));
}

void survey_close(struct survey *s)
{
    if (s->is_open)
        journal_close(&s->jf);
    s->is_open = false;
    free(s->images);
    s->images = NULL;
    core_destroy(s->core);
    s->core = NULL;
}

static void count_record(struct survey *s, const struct record *record)
{
    if (record->kind != RECORD_WRITE && record->kind != RECORD_TRIM &&
        record->kind != RECORD_ZERO)
        return;
    for (uint32_t i = 0; i < s->jf.sb.image_count; i++) {
        if (s->images[i].entry->id == record->image_id) {
            s->images[i].records++;
            s->images[i].payload_bytes += record->payload_bytes;
            return;
        }
    }
    s->forgotten_records++;
}

static int visit(void *opaque, const struct record *record)
{
    struct survey *s = opaque;

    count_record(s, record);
    return s->visit != NULL ? s->visit(s->visit_opaque, record) : 0;
}

/* The map's memory is bounded by the ring: a record takes 128 bytes of it at least, and two nodes
 * of the map at most, 64 bytes each. */
static int make_core(struct survey *s)
{
    struct superblock sb = s->jf.sb;
    int r;

    core_destroy(s->core);
    s->core = NULL;
    if (!s->with_map) {
        sb.images = NULL;
        sb.image_count = 0;
    }
    r = core_create(&s->core, &sb, sb.ring_bytes + (1u << 20));
    if (r < 0)
        report_error("%s: %s", s->jf.storage->name, report_reason(ENOMEM));
    return r;
}

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* One reading of the ring. */
static int scan(struct survey *s)
{
    uint64_t begun_ns = monotonic_ns();
    int r = make_core(s);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < s->jf.sb.image_count; i++)
        s->images[i].records = s->images[i].payload_bytes = 0;
    s->forgotten_records = 0;
    progress_begin("reading");
    r = journal_recover(&s->jf, s->core, UINT64_MAX, visit, s, progress_update, &s->result);
    progress_end();
    s->scan_ns = monotonic_ns() - begun_ns;
    return r;
}

static enum journal_state judge(const struct survey *s)
{
    if (s->result.verdict == RECOVERY_DAMAGED)
        return JOURNAL_DAMAGED;
    return s->jf.sb.state & SUPER_STATE_CLEAN ? JOURNAL_CLEAN : JOURNAL_NEEDS_REPLAY;
}

/* True if the server has written a superblock since ours was read: the ring may have been
 * reused under the scan. */
static bool superblock_changed(const struct survey *s)
{
    struct journal_file now;
    bool changed;

    if (journal_open(&now, s->jf.storage->name, ATTACH_INSPECT) < 0)
        return true;
    changed = now.sb.generation != s->jf.sb.generation;
    journal_close(&now);
    return changed;
}

/* Opens the journal again: where its server is by now. */
static int look_again(struct survey *s)
{
    struct timespec pause = {.tv_nsec = ATTEMPT_PAUSE_NS};
    char *path = strdup(s->jf.storage->name);
    int r = -ENOMEM;

    if (path == NULL) {
        report_error("%s: %s", s->jf.storage->name, report_reason(ENOMEM));
        return r;
    }
    nanosleep(&pause, NULL);
    journal_close(&s->jf);
    s->is_open = false;
    r = open_staged(s, path, ATTACH_INSPECT);
    free(path);
    return r;
}

/* A journal whose server is at work. */
static enum tool_exit scan_moving(struct survey *s)
{
    uint64_t suspect = UINT64_MAX;
    int r;

    for (int attempt = 1;; attempt++) {
        if (scan(s) < 0)
            return TOOL_FAILED;
        s->state = judge(s);
        if (s->state == JOURNAL_DAMAGED) {
            if (s->result.lost_position == suspect)
                return TOOL_OK;
            suspect = s->result.lost_position;
        } else if (!superblock_changed(s)) {
            return TOOL_OK;
        }
        if (attempt == ATTEMPTS_MAX)
            break;
        r = look_again(s);
        if (r < 0)
            return survey_open_exit(r);
    }
    if (s->state == JOURNAL_DAMAGED)
        s->state = JOURNAL_MOVING;
    return TOOL_OK;
}

enum tool_exit survey_scan(struct survey *s)
{
    enum tool_exit result = TOOL_OK;

    if (s->jf.in_use && s->visit == NULL) {
        result = scan_moving(s);
    } else if (scan(s) < 0) {
        result = TOOL_FAILED;
    } else {
        /* Each record may be shown only once: no second look. */
        s->state = judge(s);
        s->has_moved = s->jf.in_use && superblock_changed(s);
        if (s->state == JOURNAL_DAMAGED && s->jf.in_use)
            s->state = JOURNAL_MOVING;
    }
    if (result == TOOL_OK && s->state == JOURNAL_DAMAGED)
        journal_report_damage(&s->jf, &s->result);
    return result;
}

const char *survey_waiting_text(uint64_t records, uint64_t payload_bytes,
                                char text[SURVEY_TEXT_BYTES])
{
    char size[SIZE_TEXT_BYTES];

    snprintf(text, SURVEY_TEXT_BYTES, "%" PRIu64 " record%s, %s", records,
             records == 1 ? "" : "s", size_text(payload_bytes, size));
    return text;
}
