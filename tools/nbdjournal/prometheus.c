/* prometheus: see prometheus.h.
 *
 * Every sample has the label journal="PATH", so that the files of several servers can lie in one
 * folder.  Disks have a label each; clients have none, since a client is a process or an address
 * that may never come again, and each would be a time series of its own for ever.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "ask.h"
#include "prometheus.h"

/* Of commit times, in seconds: three for each power of ten, from a fast disk to a sick one. */
static const double bounds[] = {0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001,
                                0.002,   0.005,   0.01,   0.02,   0.05,   0.1,
                                0.2,     0.5,     1,      2,      5,      10};
#define BOUNDS (sizeof(bounds) / sizeof(bounds[0]))

struct family {
    const char *name, *type, *help;
    const char *path;  /* of the number in the answer, or of a disk */
    const char *label; /* the rest of the labels, or "" */
    double scale;      /* 0: a flag */
};

#define NS 1e-9

static const struct family server_families[] = {
    {"uptime_seconds", "gauge", "Time since the server was started.", "uptime_ns", "", NS},
    {"failed", "gauge",
     "1 if the journal has failed: every write and flush fails until the server is restarted.",
     "journal.failed", "", 0},
    {"ring_bytes", "gauge", "Size of the journal's ring.", "journal.ring_bytes", "", 1},
    {"used_bytes", "gauge", "Bytes of the ring between its tail and its head.",
     "journal.used_bytes", "", 1},
    {"dirty_bytes", "gauge", "Bytes of the images whose newest version is only in the journal.",
     "journal.dirty_bytes", "", 1},
    {"oldest_age_seconds", "gauge",
     "Age of the oldest record that is not in its image yet, 0 if there is none.",
     "journal.oldest_ns", "", NS},
    {"commits_total", "counter", "Commits, each with one barrier of the journal.",
     "commits.count", "", 1},
    {"commits_failed_total", "counter", "Commits that failed.", "commits.failed", "", 1},
    {"commits_answered_total", "counter", "Commits that somebody waited for.",
     "commits.answered", "", 1},
    {"flushes_answered_total", "counter",
     "Flushes and FUA writes that waited for a commit; divided by commits_answered_total: how "
     "many a commit answers.",
     "commits.flushes", "", 1},
    {"flushes_empty_total", "counter", "Flushes that had nothing to make durable.",
     "commits.empty_flushes", "", 1},
    {"commit_waits_total", "counter", "Commits that were held back for company.", "batch.waits",
     "", 1},
    {"commit_wait_seconds_total", "counter", "For how long, in all.", "batch.waits_ns", "", NS},
    {"commit_company_total", "counter", "Flushes that came while a commit was held back.",
     "batch.company", "", 1},
    {"checkpoints_total", "counter", "Checkpoints that moved the journal's tail.",
     "writeback.checkpoints", "", 1},
    {"checkpoints_failed_total", "counter", "Checkpoints that failed.", "writeback.failed", "",
     1},
    {"writeback_bytes_total", "counter", "Bytes that were written or zeroed in the images.",
     "writeback.bytes", "", 1},
    {"bypassed_writes_total", "counter",
     "Large writes, or parts of them, that went straight to an image.", "bypass.writes", "", 1},
    {"bypassed_bytes_total", "counter", "Bytes of these.", "bypass.bytes", "", 1},
    {"image_barriers_total", "counter", "Barriers of images.", "bypass.barriers", "", 1},
    {"throttled_total", "counter", "Changes that had to wait for space in the journal.",
     "throttle.count", "", 1},
    {"throttled_seconds_total", "counter", "For how long, in all.", "throttle.ns", "", NS},
    {"throttled_now", "gauge", "Changes that wait for space in the journal now.",
     "throttle.waiting", "", 1},
};

/* The label's rows follow each other, and have the name and help of the first. */
static const struct family disk_families[] = {
    {"disk_size_bytes", "gauge", "Size of the disk, 0 if its image is not open.", "size", "",
     1},
    {"disk_connections", "gauge", "Connections that have this disk open.", "connections", "",
     1},
    {"disk_dirty_bytes", "gauge", "Bytes whose newest version is only in the journal.",
     "dirty_bytes", "", 1},
    {"disk_requests_total", "counter", "Requests that were answered.", "reads",
     ",operation=\"read\"", 1},
    {"disk_requests_total", NULL, NULL, "writes", ",operation=\"write\"", 1},
    {"disk_requests_total", NULL, NULL, "flushes", ",operation=\"flush\"", 1},
    {"disk_requests_total", NULL, NULL, "trims", ",operation=\"trim\"", 1},
    {"disk_requests_total", NULL, NULL, "zeroes", ",operation=\"zero\"", 1},
    {"disk_request_bytes_total", "counter", "Bytes of these requests.", "read_bytes",
     ",operation=\"read\"", 1},
    {"disk_request_bytes_total", NULL, NULL, "write_bytes", ",operation=\"write\"", 1},
    {"disk_request_bytes_total", NULL, NULL, "trim_bytes", ",operation=\"trim\"", 1},
    {"disk_request_bytes_total", NULL, NULL, "zero_bytes", ",operation=\"zero\"", 1},
    {"disk_fua_total", "counter", "Changes that had to be durable when they were answered.",
     "fua", "", 1},
    {"disk_errors_total", "counter", "Requests that were answered with an error.", "errors", "",
     1},
    {"disk_throttled_seconds_total", "counter", "Time that its changes waited for space.",
     "throttled_ns", "", NS},
    {"disk_oldest_age_seconds", "gauge",
     "Nothing that is not in the image yet waits for longer; 0 if nothing waits.", "oldest_ns",
     "", NS},
    {"disk_writeback_bytes_total", "counter", "Bytes that were written in its image.",
     "writeback_bytes", "", 1},
    {"disk_commits_total", "counter", "Commits that answered at least one of its flushes.",
     "commits", "", 1},
    {"disk_flushes_answered_total", "counter",
     "Flushes and FUA writes that waited for a commit; divided by disk_commits_total: how many "
     "of them a commit answers.",
     "commit_time.count", "", 1},
    {"disk_flush_wait_seconds_total", "counter", "For how long they waited for it, in all.",
     "commit_time.sum_ns", "", NS},
    {"disk_commit_waits_total", "counter",
     "Commits led by one of its flushes that were held back for company.", "held", "", 1},
    {"disk_commit_company_total", "counter", "Flushes that came while a commit was held back.",
     "company", "", 1},
    {"disk_lost", "gauge",
     "1 if a flush of the image failed: every change of the disk fails until the next start.",
     "lost", "", 0},
    {"disk_writeback_failing", "gauge", "1 if the image can't be written now.", "error", "", 0},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PREFIX "nbdkit_journal_"

static void print_label(FILE *out, const char *value)
{
    for (; value != NULL && *value != '\0'; value++) {
        if (*value == '\n')
            fputs("\\n", out);
        else if (*value == '"' || *value == '\\')
            fprintf(out, "\\%c", *value);
        else
            putc(*value, out);
    }
}

static void print_head(FILE *out, const struct family *f)
{
    if (f->help == NULL)
        return;
    fprintf(out, "# HELP " PREFIX "%s %s\n", f->name, f->help);
    fprintf(out, "# TYPE " PREFIX "%s %s\n", f->name, f->type);
}

static void print_value(FILE *out, const struct family *f, const json_t *from)
{
    const json_t *member = ask_member(from, f->path);

    if (f->scale == 0)
        fprintf(out, " %d\n", json_is_true(member) || json_is_string(member));
    else if (f->scale == 1)
        fprintf(out, " %" PRIu64 "\n", ask_number(from, f->path));
    else
        fprintf(out, " %.9f\n", (double)ask_number(from, f->path) * f->scale);
}

static void begin_sample(FILE *out, const char *name, const json_t *stats)
{
    fprintf(out, PREFIX "%s{journal=\"", name);
    print_label(out, ask_text(stats, "journal.path"));
    putc('"', out);
}

static void print_disks(FILE *out, const json_t *stats)
{
    const json_t *disks = json_object_get(stats, "disks");

    for (size_t i = 0; i < COUNT(disk_families); i++) {
        const struct family *f = &disk_families[i];

        print_head(out, f);
        for (size_t j = 0; j < json_array_size(disks); j++) {
            const json_t *disk = json_array_get(disks, j);

            begin_sample(out, f->name, stats);
            fputs(",disk=\"", out);
            print_label(out, ask_text(disk, "name"));
            fprintf(out, "\"%s}", f->label);
            print_value(out, f, disk);
        }
    }
}

/* How many were at most this long. */
static uint64_t count_upto(const json_t *buckets, double seconds)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < json_array_size(buckets); i++) {
        const json_t *bucket = json_array_get(buckets, i);

        if ((double)json_integer_value(json_array_get(bucket, 0)) * NS <= seconds)
            sum += (uint64_t)json_integer_value(json_array_get(bucket, 1));
    }
    return sum;
}

static void print_commit_times(FILE *out, const json_t *stats)
{
    static const struct family family = {"commit_duration_seconds",
                                         "histogram",
                                         "Duration of commits, barrier included.",
                                         "",
                                         "",
                                         1};
    const json_t *time = ask_member(stats, "commits.time");

    print_head(out, &family);
    for (size_t i = 0; i < BOUNDS; i++) {
        begin_sample(out, "commit_duration_seconds_bucket", stats);
        fprintf(out, ",le=\"%g\"} %" PRIu64 "\n", bounds[i],
                count_upto(json_object_get(time, "buckets"), bounds[i]));
    }
    begin_sample(out, "commit_duration_seconds_bucket", stats);
    fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\n", ask_number(time, "count"));
    begin_sample(out, "commit_duration_seconds_sum", stats);
    fprintf(out, "} %.9f\n", (double)ask_number(time, "sum_ns") * NS);
    begin_sample(out, "commit_duration_seconds_count", stats);
    fprintf(out, "} %" PRIu64 "\n", ask_number(time, "count"));
}

void prometheus_print(FILE *out, const json_t *stats)
{
    static const struct family info = {"info", "gauge", "What is served: always 1.", "", "", 1};

    print_head(out, &info);
    begin_sample(out, "info", stats);
    fputs(",uuid=\"", out);
    print_label(out, ask_text(stats, "journal.uuid"));
    fputs("\",version=\"", out);
    print_label(out, ask_text(stats, "version"));
    fputs("\",policy=\"", out);
    print_label(out, ask_text(stats, "batch.policy"));
    fputs("\"} 1\n", out);
    for (size_t i = 0; i < COUNT(server_families); i++) {
        print_head(out, &server_families[i]);
        begin_sample(out, server_families[i].name, stats);
        putc('}', out);
        print_value(out, &server_families[i], stats);
    }
    print_commit_times(out, stats);
    print_disks(out, stats);
}
