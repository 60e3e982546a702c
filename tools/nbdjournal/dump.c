/* nbdjournal dump */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "datalog.h"
#include "describe.h"
#include "nbdjournal.h"
#include "report.h"
#include "size.h"
#include "survey.h"

enum dump_format { DUMP_LINES, DUMP_JSON, DUMP_DATALOG };

/* What is listed. */
struct dump_filter {
    bool has_range;
    uint64_t offset, length; /* records that touch a byte of it */
    uint64_t since_us, until_us;
};

struct dump_arguments {
    const char *journal;
    const char *image; /* only of this one, or NULL */
    enum dump_format format;
    struct dump_filter filter;
};

struct dump {
    enum dump_format format;
    uint32_t image_id; /* 0: of all images */
    struct dump_filter filter;
    struct record newest; /* of those listed; lsn 0: none */
    struct datalog log;
};

static const struct argp_option options[] = {
    {.name = "json", .key = 'j', .doc = "For programs: one JSON object a line"},
    {.name = "datalog",
     .key = 'd',
     .doc = "The changes with their data, as nbd-server's transaction log, for nbd-trplay"},
    {.name = "image",
     .key = 'i',
     .arg = "IMAGE",
     .doc = "Only what is for this image: its number, UUID or path, as info shows them"},
    {.name = "offset",
     .key = 'o',
     .arg = "OFFSET[+LENGTH]",
     .doc = "Only changes of this byte of the image, or of so many from there on"},
    {.name = "since",
     .key = 's',
     .arg = "TIME",
     .doc = "Only from then on: \"YYYY-MM-DD[ HH:MM[:SS]]\", \"HH:MM[:SS]\" of today, or "
            "@SECONDS since 1970"},
    {.name = "until", .key = 'u', .arg = "TIME", .doc = "Only up to then"},
    {0}};

static void set_format(struct argp_state *state, struct dump_arguments *a,
                       enum dump_format format)
{
    if (a->format != DUMP_LINES)
        argp_error(state, "--json or --datalog, not both");
    a->format = format;
}

static void parse_range(struct argp_state *state, char *argument, struct dump_filter *filter)
{
    char *plus = strchr(argument, '+');

    filter->length = 1;
    if (plus != NULL)
        *plus = '\0';
    if (!size_parse(argument, &filter->offset) ||
        (plus != NULL && (!size_parse(plus + 1, &filter->length) || filter->length == 0)))
        argp_error(state,
                   "--offset %s%s%s: must be OFFSET or OFFSET+LENGTH, such as 800256 or "
                   "1G+64K",
                   argument, plus != NULL ? "+" : "", plus != NULL ? plus + 1 : "");
    filter->has_range = true;
}

/* Microseconds since 1970. */
static uint64_t parse_time(struct argp_state *state, const char *argument)
{
    static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S",
                                          "%Y-%m-%d %H:%M",    "%Y-%m-%d",
                                          "%H:%M:%S",          "%H:%M"};
    time_t now = time(NULL), then;
    const char *rest;
    struct tm tm;
    uint64_t seconds;

    if (*argument == '@' && size_parse(argument + 1, &seconds) &&
        seconds < UINT64_MAX / 1000000 - 1)
        return seconds * 1000000;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        localtime_r(&now, &tm);
        tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
        tm.tm_isdst = -1;
        rest = strptime(argument, formats[i], &tm);
        if (rest == NULL || *rest != '\0')
            continue;
        then = mktime(&tm);
        if (then >= 0)
            return (uint64_t)then * 1000000;
    }
    argp_error(state,
               "'%s' is no time: write for example \"2026-07-31 12:00:00\", 12:00 or @%lld",
               argument, (long long)now);
    return 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct dump_arguments *a = state->input;

    switch (key) {
    case 'j':
        set_format(state, a, DUMP_JSON);
        return 0;
    case 'd':
        set_format(state, a, DUMP_DATALOG);
        return 0;
    case 'i':
        a->image = argument;
        return 0;
    case 'o':
        parse_range(state, argument, &a->filter);
        return 0;
    case 's':
        a->filter.since_us = parse_time(state, argument);
        return 0;
    case 'u':
        /* The second that was named is in it. */
        a->filter.until_us = parse_time(state, argument) + 999999;
        return 0;
    case ARGP_KEY_ARG:
        if (a->journal != NULL)
            argp_error(state, "one journal at a time");
        a->journal = argument;
        return 0;
    case ARGP_KEY_END:
        if (a->journal == NULL)
            argp_error(state, "which JOURNAL?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool is_change(const struct record *record)
{
    return record->kind == RECORD_WRITE || record->kind == RECORD_TRIM ||
           record->kind == RECORD_ZERO;
}

static void print_head(void)
{
    printf("#       lsn kind  image           offset      length     durable       position "
           "epoch time                flags\n");
}

static void print_line(const struct record *r)
{
    char time[DESCRIBE_TIME_BYTES];

    printf("%11" PRIu64 " %-5s ", r->lsn, describe_kind(r->kind));
    if (is_change(r))
        printf("%5" PRIu32 " %16" PRIu64 " %11" PRIu64, r->image_id, r->offset, r->length);
    else
        printf("%5s %16s %11s", "-", "-", "-");
    printf(" %11" PRIu64 " %14" PRIu64 " %5" PRIu32 " %s", r->durable_lsn, r->position,
           r->epoch, describe_time(r->time_us, time));
    if (r->flags & RECORD_FLAG_FUA)
        printf(" fua");
    if (r->kind == RECORD_EPOCH)
        printf(" cut=%" PRIu64, r->cut_lsn);
    putchar('\n');
}

static int print_json(const struct record *r)
{
    json_t *object = json_pack(
        "{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "lsn", (json_int_t)r->lsn,
        "kind", describe_kind(r->kind), "image", (json_int_t)r->image_id, "offset",
        (json_int_t)r->offset, "length", (json_int_t)r->length, "durable_lsn",
        (json_int_t)r->durable_lsn, "position", (json_int_t)r->position, "span_bytes",
        (json_int_t)r->span_bytes, "epoch", (json_int_t)r->epoch, "time_us",
        (json_int_t)r->time_us, "fua", (r->flags & RECORD_FLAG_FUA) != 0);

    if (object != NULL && r->kind == RECORD_EPOCH)
        json_object_set_new(object, "cut_lsn", json_integer((json_int_t)r->cut_lsn));
    return describe_json_print(object, JSON_COMPACT) == TOOL_OK ? 0 : -EIO;
}

static bool is_wanted(const struct dump *dump, const struct record *r)
{
    const struct dump_filter *filter = &dump->filter;

    if (dump->image_id != 0 && r->image_id != dump->image_id)
        return false;
    if (r->time_us < filter->since_us || r->time_us > filter->until_us)
        return false;
    return !filter->has_range || (is_change(r) && r->offset < filter->offset + filter->length &&
                                  r->length > 0 && r->offset + r->length > filter->offset);
}

static int visit(void *opaque, const struct record *record)
{
    struct dump *dump = opaque;

    if (!is_wanted(dump, record))
        return 0;
    dump->newest = *record;
    switch (dump->format) {
    case DUMP_LINES:
        print_line(record);
        break;
    case DUMP_JSON:
        return print_json(record);
    case DUMP_DATALOG:
        return is_change(record) ? datalog_add(&dump->log, record) : 0;
    }
    /* Nobody reads any more, or the disk is full: no need to go on. */
    return ferror(stdout) ? -EIO : 0;
}

/* The image that the words mean: number, UUID or path. */
static const struct image_entry *find_image(const struct superblock *sb, const char *words)
{
    char id[16], uuid[37];

    for (uint32_t i = 0; i < sb->image_count; i++) {
        const struct image_entry *entry = &sb->images[i];

        snprintf(id, sizeof(id), "%" PRIu32, entry->id);
        format_uuid_text(entry->uuid, uuid);
        if (strcmp(words, id) == 0 || strcasecmp(words, uuid) == 0 ||
            strcmp(words, entry->name) == 0)
            return entry;
    }
    return NULL;
}

/* False and reported: the question makes no sense for this journal. */
static bool choose_image(const struct survey *s, const struct dump_arguments *a,
                         struct dump *dump)
{
    const struct image_entry *entry;

    if (a->image != NULL) {
        entry = find_image(&s->jf.sb, a->image);
        if (entry == NULL) {
            report_error("%s: it knows no image '%s': `nbdjournal info %s` lists those that it "
                         "knows",
                         a->journal, a->image, a->journal);
            return false;
        }
        dump->image_id = entry->id;
    } else if (a->format == DUMP_DATALOG || a->filter.has_range) {
        if (s->jf.sb.image_count > 1) {
            report_error("%s: it serves %" PRIu32 " images, and %s of one: say which one with "
                         "--image (`nbdjournal info %s` lists them)",
                         a->journal, s->jf.sb.image_count,
                         a->format == DUMP_DATALOG ? "a datalog is" : "an offset is",
                         a->journal);
            return false;
        }
        if (s->jf.sb.image_count == 1)
            dump->image_id = s->jf.sb.images[0].id;
    }
    return true;
}

/* How the story of a block ends. */
static void print_outcome(const struct survey *s, const struct dump *dump)
{
    if (dump->newest.lsn == 0)
        printf("# no change of it is in the journal: what the image has there counts\n");
    else if (s->state == JOURNAL_CLEAN)
        printf("# all of this is in the image\n");
    else
        printf("# the newest is lsn %" PRIu64 ": a read of what it covers returns %s\n",
               dump->newest.lsn,
               dump->newest.kind == RECORD_WRITE ? "what it wrote" : "zeroes");
}

static enum tool_exit dump_all(struct survey *s, struct dump *dump)
{
    enum tool_exit result;
    unsigned block;

    if (dump->format == DUMP_LINES)
        print_head();
    if (dump->format == DUMP_DATALOG && datalog_begin(&dump->log, stdout, &s->jf) < 0)
        return TOOL_FAILED;
    s->visit = visit;
    s->visit_opaque = dump;
    result = survey_scan(s);
    if (dump->format == DUMP_DATALOG) {
        block = datalog_end(&dump->log);
        if (result == TOOL_OK)
            report_info("%" PRIu64 " request%s; replay them onto a copy of the image with: "
                        "nbd-trplay -i COPY -l DATALOG -b %u",
                        dump->log.requests, dump->log.requests == 1 ? "" : "s", block);
    }
    if (result == TOOL_OK && dump->format == DUMP_LINES && dump->filter.has_range)
        print_outcome(s, dump);
    if (result == TOOL_OK && s->state == JOURNAL_DAMAGED)
        result = TOOL_DAMAGED;
    if (result == TOOL_OK && (s->state == JOURNAL_MOVING || s->has_moved))
        report_info("%s: its server moved it while it was read: records may be missing at the "
                    "end",
                    s->jf.storage->name);
    return result;
}

enum tool_exit dump_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOURNAL",
        .doc = "Lists the records that wait in a journal, one a line.  Nothing is changed."};
    struct dump_arguments a = {.filter.until_us = UINT64_MAX};
    struct survey s = {0};
    struct dump dump = {0};
    enum tool_exit result;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    if (a.format == DUMP_DATALOG && isatty(STDOUT_FILENO)) {
        report_error("a datalog is no text for a terminal: write it to a file with >FILE");
        return TOOL_FAILED;
    }
    dump.format = a.format;
    dump.filter = a.filter;
    result = survey_open(&s, a.journal, ATTACH_INSPECT);
    if (result == TOOL_OK)
        result = choose_image(&s, &a, &dump) ? dump_all(&s, &dump) : TOOL_FAILED;
    survey_close(&s);
    return result;
}
