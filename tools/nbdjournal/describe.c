/* describe: see describe.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "staging.h"
#include "describe.h"
#include "report.h"
#include "size.h"
#include "text_json.h"

const char *describe_state(enum journal_state state)
{
    switch (state) {
    case JOURNAL_CLEAN:
        return "clean";
    case JOURNAL_NEEDS_REPLAY:
        return "needs replay";
    case JOURNAL_DAMAGED:
        return "damaged";
    case JOURNAL_MOVING:
        return "in motion";
    }
    return "unknown";
}

const char *describe_kind(enum record_kind kind)
{
    switch (kind) {
    case RECORD_WRITE:
        return "write";
    case RECORD_TRIM:
        return "trim";
    case RECORD_ZERO:
        return "zero";
    case RECORD_PAD:
        return "pad";
    case RECORD_EPOCH:
        return "epoch";
    case RECORD_REVOKE:
        return "revoke";
    }
    return "unknown";
}

static const char *image_kind_text(enum image_kind kind)
{
    return kind == IMAGE_FILE ? "file" : kind == IMAGE_BLOCK ? "block device" : "remote";
}

const char *describe_time(uint64_t time_us, char text[DESCRIBE_TIME_BYTES])
{
    time_t seconds = (time_t)(time_us / 1000000);
    struct tm local;

    if (localtime_r(&seconds, &local) == NULL ||
        strftime(text, DESCRIBE_TIME_BYTES, "%Y-%m-%d %H:%M:%S", &local) == 0)
        snprintf(text, DESCRIBE_TIME_BYTES, "%" PRIu64 " s", time_us / 1000000);
    return text;
}

/* ---- for people ---- */

static void print_journal(const struct survey *s)
{
    const struct superblock *sb = &s->jf.sb;
    char uuid[37], size[SIZE_TEXT_BYTES], time[DESCRIBE_TIME_BYTES];

    format_uuid_text(sb->uuid, uuid);
    printf("journal         %s\n", s->jf.storage->name);
    printf("  uuid          %s\n", uuid);
    printf("  version       %d\n", FORMAT_VERSION);
    printf("  size          %s\n", size_text_exact(sb->ring_start + sb->ring_bytes, size));
    printf("  ring          %s\n", size_text_exact(sb->ring_bytes, size));
    printf("  atomic        %s: a request up to this size is there whole or not at all\n",
           size_text(staging_atomic_max(sb->ring_bytes), size));
    printf("  created       %s\n", describe_time(sb->created_us, time));
    printf("  superblock    %s, %d of 2 copies valid\n", describe_time(sb->updated_us, time),
           s->jf.slots_valid);
    if (sb->epoch == 0)
        printf("  epoch         never written to\n");
    else
        printf("  epoch         %" PRIu32 "\n",
               s->result.cut.epoch > sb->epoch ? s->result.cut.epoch : sb->epoch);
    printf("  last lsn      %" PRIu64 "\n", s->result.cut.lsn);
}

static void print_images(const struct survey *s)
{
    char uuid[37], size[SIZE_TEXT_BYTES], text[SURVEY_TEXT_BYTES];

    for (uint32_t i = 0; i < s->jf.sb.image_count; i++) {
        const struct survey_image *image = &s->images[i];

        format_uuid_text(image->entry->uuid, uuid);
        printf("image %-3" PRIu32 "       %s (%s)\n", image->entry->id, image->entry->name,
               image_kind_text(image->entry->kind));
        printf("  uuid          %s\n", uuid);
        printf("  size          %s\n", size_text_exact(image->entry->size, size));
        printf("  waiting       %s\n",
               image->records == 0
                   ? "nothing"
                   : survey_waiting_text(image->records, image->payload_bytes, text));
    }
    if (s->forgotten_records != 0)
        printf("  forgotten     %" PRIu64 " records of images that the journal does not know\n",
               s->forgotten_records);
}

static void print_next(const struct survey *s)
{
    const char *name = s->jf.storage->name;

    if (s->jf.in_use) {
        printf("next            nothing: its server takes care of it\n");
        return;
    }
    switch (s->state) {
    case JOURNAL_CLEAN:
        if (s->jf.sb.epoch == 0)
            printf("next            nbdkit journal file=IMAGE journal=%s\n", name);
        else
            printf("next            nothing: the images alone are complete\n");
        break;
    case JOURNAL_NEEDS_REPLAY:
        /* Without the newest records neither goes on unasked. */
        printf("next            start the server again%s, which recovers it, or\n"
               "                nbdjournal replay %s%s\n",
               s->staging == STAGING_MISSING ? " with recover=yes" : "", name,
               s->staging == STAGING_MISSING ? " --yes" : "");
        break;
    case JOURNAL_DAMAGED:
        printf("next            copy journal and images away before anything else, then see\n"
               "                DAMAGE in nbdjournal(1)\n");
        break;
    case JOURNAL_MOVING:
        break;
    }
}

static void print_state(const struct survey *s)
{
    const struct recovery_result *result = &s->result;
    char text[SURVEY_TEXT_BYTES], first[DESCRIBE_TIME_BYTES], last[DESCRIBE_TIME_BYTES];

    if (s->jf.in_use && s->state == JOURNAL_NEEDS_REPLAY)
        printf("state           in use: a server is at work on it now\n");
    else
        printf("state           %s%s\n", describe_state(s->state),
               s->jf.in_use ? ", and in use" : "");
    if (s->state == JOURNAL_MOVING)
        printf("                what was read fits no single moment: try again, or stop the "
               "server\n");
    if (s->state != JOURNAL_CLEAN && result->records != 0)
        printf("                %s, of %s to %s\n",
               survey_waiting_text(result->records, result->payload_bytes, text),
               describe_time(result->first_us, first), describe_time(result->last_us, last));
    else if (s->state == JOURNAL_NEEDS_REPLAY)
        printf("                no records: nothing but the end of the session is missing\n");
    if (s->state == JOURNAL_NEEDS_REPLAY && result->torn && !s->jf.in_use)
        printf("                behind them is what a crash left half written: it was never "
               "durable\n");
}

static void print_staging(const struct survey *s)
{
    if (s->staging == STAGING_MISSING)
        printf("                and the newest ones are missing: see MISSING RECORDS in "
               "nbdjournal(1)\n");
}

void describe_print(const struct survey *s)
{
    print_journal(s);
    print_images(s);
    print_state(s);
    print_staging(s);
    print_next(s);
}

/* ---- for programs ---- */

static const char *staging_text(enum staging_found staging)
{
    return staging == STAGING_FOUND     ? "found"
           : staging == STAGING_MISSING ? "missing"
                                        : "unused";
}

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *image_json(const struct survey_image *image)
{
    const struct image_entry *entry = image->entry;
    char uuid[37];

    format_uuid_text(entry->uuid, uuid);
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:b, s:o, s:o}", "uuid", uuid, "id",
                     number(entry->id), "kind", image_kind_text(entry->kind), "path",
                     text_json(entry->name), "size", number(entry->size), "pending",
                     (entry->flags & IMAGE_FLAG_PENDING) != 0, "records",
                     number(image->records), "payload_bytes", number(image->payload_bytes));
}

json_t *describe_json(const struct survey *s)
{
    const struct superblock *sb = &s->jf.sb;
    const struct recovery_result *result = &s->result;
    json_t *images = json_array();
    char uuid[37];

    for (uint32_t i = 0; i < sb->image_count; i++)
        json_array_append_new(images, image_json(&s->images[i]));
    format_uuid_text(sb->uuid, uuid);
    return json_pack(
        "{s:o, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:b, s:s, s:o, s:o, s:o,"
        " s:o, s:o, s:b, s:s, s:o}",
        "path", text_json(s->jf.storage->name), "uuid", uuid, "version", FORMAT_VERSION, "size",
        number(sb->ring_start + sb->ring_bytes), "ring_bytes", number(sb->ring_bytes),
        "atomic_max", number(staging_atomic_max(sb->ring_bytes)), "created_us",
        number(sb->created_us), "updated_us", number(sb->updated_us), "superblocks_valid",
        s->jf.slots_valid, "epoch", number(sb->epoch), "tail_lsn", number(sb->tail.lsn),
        "last_lsn", number(result->cut.lsn), "in_use", s->jf.in_use, "state",
        describe_state(s->state), "records", number(result->records), "payload_bytes",
        number(result->payload_bytes), "ring_used_bytes", number(result->live_bytes),
        "first_us", number(result->first_us), "last_us", number(result->last_us), "torn",
        result->torn, "staging", staging_text(s->staging), "images", images);
}

enum tool_exit describe_json_print(json_t *object, size_t flags)
{
    int r = object == NULL ? -1 : json_dumpf(object, stdout, flags);

    json_decref(object);
    putchar('\n');
    if (r == 0)
        return TOOL_OK;
    report_error(object == NULL ? "out of memory" : "standard output can't be written");
    return TOOL_FAILED;
}
