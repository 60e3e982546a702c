/* describe: see describe.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "staging.h"
#include "describe.h"
#include "duration.h"
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

/* One screen has 24 lines. */
#define IMAGES_IN_FULL 2
#define IMAGE_LINES 4u

static void print_journal(const struct survey *s)
{
    const struct superblock *sb = &s->jf.sb;
    char uuid[37], size[SIZE_TEXT_BYTES], time[DESCRIBE_TIME_BYTES];

    format_uuid_text(sb->uuid, uuid);
    printf("journal         %s\n", s->jf.storage->name);
    printf("  uuid          %s, format version %d\n", uuid, FORMAT_VERSION);
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

/* More waits first, then in the table's order. */
static int compare_waiting(const void *a, const void *b)
{
    const struct survey_image *x = *(const struct survey_image *const *)a;
    const struct survey_image *y = *(const struct survey_image *const *)b;

    if (x->records != y->records)
        return x->records > y->records ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* A line each, so that it stays one screen; those for which something waits come first. */
static void print_many_images(const struct survey *s)
{
    uint32_t count = s->jf.sb.image_count;
    const struct survey_image **sorted = calloc(count, sizeof(const struct survey_image *));
    char size[SIZE_TEXT_BYTES], text[SURVEY_TEXT_BYTES];

    printf("images          %" PRIu32 "\n", count);
    if (sorted == NULL)
        return;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = &s->images[i];
    qsort(sorted, count, sizeof(const struct survey_image *), compare_waiting);
    for (uint32_t i = 0; i < count && i < IMAGE_LINES; i++) {
        const struct survey_image *image = sorted[i];

        printf("  %-5" PRIu32 "         %s, %s: %s\n", image->entry->id, image->entry->name,
               size_text(image->entry->size, size),
               image->records == 0
                   ? "nothing waits"
                   : survey_waiting_text(image->records, image->payload_bytes, text));
    }
    if (count > IMAGE_LINES)
        printf("                and %" PRIu32 " more (--json lists all)\n",
               count - IMAGE_LINES);
    free(sorted);
}

static void print_images(const struct survey *s)
{
    char uuid[37], size[SIZE_TEXT_BYTES], text[SURVEY_TEXT_BYTES];

    if (s->jf.sb.image_count > IMAGES_IN_FULL)
        print_many_images(s);
    for (uint32_t i = 0; i < s->jf.sb.image_count && s->jf.sb.image_count <= IMAGES_IN_FULL;
         i++) {
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
        printf("  forgotten     %" PRIu64
               " record%s of images that the journal does not know\n",
               s->forgotten_records, s->forgotten_records == 1 ? "" : "s");
}

/* A word of a command, as a shell wants it. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_/.,:+@%=-";

    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    }
    putchar('\'');
}

/* The command that serves the images with this journal.  A journal of that name is a folder's. */
static void print_serve(const struct survey *s)
{
    const char *journal = s->jf.storage->name, *slash = strrchr(journal, '/');
    bool folder = strcmp(slash != NULL ? slash + 1 : journal, ".journal") == 0;
    char path[PATH_MAX], command[2 * PATH_MAX];

    fputs("nbdkit journal ", stdout);
    if (s->jf.sb.image_count == 0) {
        fputs("file=IMAGE", stdout);
    } else {
        snprintf(path, sizeof(path), "%s", s->jf.sb.images[0].name);
        folder = folder || s->jf.sb.image_count > 1;
        snprintf(command, sizeof(command), "%s%s",
                 folder ? "dir=" : "file=", folder ? dirname(path) : path);
        print_word(command);
    }
    snprintf(command, sizeof(command), " journal=%s", journal);
    putchar(' ');
    print_word(command + 1);
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
        if (s->jf.sb.epoch == 0) {
            printf("next            ");
            print_serve(s);
            putchar('\n');
        } else
            printf("next            nothing: the images alone are complete\n");
        break;
    case JOURNAL_NEEDS_REPLAY:
        /* Without the newest records neither goes on unasked. */
        printf("next            start the server again, which recovers it:\n"
               "                ");
        print_serve(s);
        printf("%s\n"
               "                or bring it home without one:\n"
               "                nbdjournal replay ",
               s->staging == STAGING_MISSING ? " recover=yes" : "");
        print_word(name);
        printf("%s\n", s->staging == STAGING_MISSING ? " --yes" : "");
        break;
    case JOURNAL_DAMAGED:
        printf("next            copy journal and images away before anything else, then see\n"
               "                DAMAGE in nbdjournal(1)\n");
        break;
    case JOURNAL_MOVING:
        break;
    }
}

static const char *age_text(uint64_t then_us, char text[DURATION_TEXT_BYTES])
{
    struct timespec now;
    uint64_t now_us;

    clock_gettime(CLOCK_REALTIME, &now);
    now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    return duration_text(now_us > then_us ? (now_us - then_us) * 1000 : 0, text);
}

static void print_waiting(const struct survey *s)
{
    const struct recovery_result *result = &s->result;
    char first[DESCRIBE_TIME_BYTES], last[DESCRIBE_TIME_BYTES], age[DURATION_TEXT_BYTES];

    if (s->state != JOURNAL_CLEAN && result->records != 0)
        printf("                since %s (%s ago), to %s\n",
               describe_time(result->first_us, first), age_text(result->first_us, age),
               describe_time(result->last_us, last));
    else if (s->state == JOURNAL_NEEDS_REPLAY)
        printf("                nothing but the end of the session is missing\n");
    if (s->state == JOURNAL_NEEDS_REPLAY && result->torn && !s->jf.in_use)
        printf("                behind them is what a crash left half written: it was never "
               "durable\n");
}

static void print_state(const struct survey *s)
{
    const struct recovery_result *result = &s->result;
    char text[SURVEY_TEXT_BYTES];

    if (s->jf.in_use && s->state == JOURNAL_NEEDS_REPLAY)
        printf("state           in use: a server is at work on it now");
    else
        printf("state           %s%s", describe_state(s->state),
               s->jf.in_use ? ", and in use" : "");
    if (s->state != JOURNAL_CLEAN)
        printf("%s%s", s->jf.in_use ? "\n                " : ": ",
               survey_waiting_text(result->records, result->payload_bytes, text));
    putchar('\n');
    if (s->state == JOURNAL_MOVING)
        printf("                what was read fits no single moment: try again, or stop the "
               "server\n");
    print_waiting(s);
}

/* A recovery does what this look did. */
static void print_recovery(const struct survey *s)
{
    char size[SIZE_TEXT_BYTES], took[DURATION_TEXT_BYTES];

    if (s->state == JOURNAL_NEEDS_REPLAY)
        printf("recovery        takes about %s, for %s; then the disk is served, and\n"
               "                what waits goes home in the background\n",
               duration_text(s->scan_ns, took), size_text(s->jf.sb.ring_bytes, size));
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
    print_recovery(s);
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
        " s:o, s:o, s:b, s:s, s:o, s:o}",
        "path", text_json(s->jf.storage->name), "uuid", uuid, "version", FORMAT_VERSION, "size",
        number(sb->ring_start + sb->ring_bytes), "ring_bytes", number(sb->ring_bytes),
        "atomic_max", number(staging_atomic_max(sb->ring_bytes)), "created_us",
        number(sb->created_us), "updated_us", number(sb->updated_us), "superblocks_valid",
        s->jf.slots_valid, "epoch", number(sb->epoch), "tail_lsn", number(sb->tail.lsn),
        "last_lsn", number(result->cut.lsn), "in_use", s->jf.in_use, "state",
        describe_state(s->state), "records", number(result->records), "payload_bytes",
        number(result->payload_bytes), "ring_used_bytes", number(result->live_bytes),
        "first_us", number(result->first_us), "last_us", number(result->last_us), "torn",
        result->torn, "staging", staging_text(s->staging), "recovery_ns",
        number(s->state == JOURNAL_CLEAN ? 0 : s->scan_ns), "images", images);
}

enum tool_exit describe_json_print(json_t *object, size_t flags)
{
    int r = object == NULL ? -1 : json_dumpf(object, stdout, flags);

    json_decref(object);
    putchar('\n');
    if (r == 0)
        return TOOL_OK;
    report_error("standard output: %s",
                 object == NULL ? report_reason(ENOMEM) : "it can't be written");
    return TOOL_FAILED;
}
