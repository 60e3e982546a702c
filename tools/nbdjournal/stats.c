/* nbdjournal stats */
#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "describe.h"
#include "duration.h"
#include "nbdjournal.h"
#include "prometheus.h"
#include "report.h"
#include "socket_argument.h"
#include "size.h"

#define TIMEOUT_MS 10000

enum form { FORM_TEXT, FORM_JSON, FORM_PROMETHEUS };

struct stats_arguments {
    const char *socket;
    enum form form;
    bool form_given;
};

static const struct argp_option options[] = {
    {.name = "json", .key = 'j', .doc = "For programs: one JSON object"},
    {.name = "prometheus", .key = 'p', .doc = "For Prometheus: its text format"},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct stats_arguments *a = state->input;

    switch (key) {
    case 'j':
    case 'p':
        if (a->form_given)
            argp_error(state, "--json and --prometheus exclude each other");
        a->form = key == 'j' ? FORM_JSON : FORM_PROMETHEUS;
        a->form_given = true;
        return 0;
    default:
        return socket_argument(key, argument, state, &a->socket);
    }
}

/* ---- for people ---- */

static void print_server(const json_t *o)
{
    const char *path = ask_text(o, "journal.path");
    char up[DURATION_TEXT_BYTES], age[DURATION_TEXT_BYTES];
    char used[SIZE_TEXT_BYTES], ring[SIZE_TEXT_BYTES], dirty[SIZE_TEXT_BYTES];
    uint64_t ring_bytes = ask_number(o, "journal.ring_bytes");
    uint64_t used_bytes = ask_number(o, "journal.used_bytes");

    printf("server          process %" PRIu64 ", version %s, up %s\n", ask_number(o, "pid"),
           ask_text(o, "version"), duration_text(ask_number(o, "uptime_ns"), up));
    printf("journal         %s\n", path != NULL ? path : "none: a read-only image alone");
    printf("  state         %s%s\n", ask_text(o, "journal.state"),
           ask_flag(o, "journal.failed") ? ": FAILED, every write and flush fails; mend its "
                                           "disk, and start the server again"
           : ask_flag(o, "journal.read_only") ? ", read-only"
                                              : "");
    printf("  ring          %s of %s used, %" PRIu64 " %%\n", size_text(used_bytes, used),
           size_text(ring_bytes, ring), ring_bytes == 0 ? 0 : used_bytes * 100 / ring_bytes);
    printf("  waiting       %s", size_text(ask_number(o, "journal.dirty_bytes"), dirty));
    if (ask_number(o, "journal.oldest_ns") > 0)
        printf(", the oldest for %s", duration_text(ask_number(o, "journal.oldest_ns"), age));
    putchar('\n');
}

static void print_commits(const json_t *o)
{
    char p50[DURATION_TEXT_BYTES], p99[DURATION_TEXT_BYTES], p999[DURATION_TEXT_BYTES],
        max[DURATION_TEXT_BYTES], waited[DURATION_TEXT_BYTES];
    uint64_t answered = ask_number(o, "commits.answered");
    uint64_t flushes = ask_number(o, "commits.flushes");

    printf("commits         %" PRIu64 "\n", ask_number(o, "commits.count"));
    printf("  time          p50 %s, p99 %s, p99.9 %s, max %s\n",
           duration_text(ask_number(o, "commits.time.p50_ns"), p50),
           duration_text(ask_number(o, "commits.time.p99_ns"), p99),
           duration_text(ask_number(o, "commits.time.p999_ns"), p999),
           duration_text(ask_number(o, "commits.time.max_ns"), max));
    printf("  flushes       %" PRIu64 ", %.2f a commit; %" PRIu64 " more had nothing new\n",
           flushes, answered == 0 ? 0. : (double)flushes / (double)answered,
           ask_number(o, "commits.empty_flushes"));
    printf("  held back     %" PRIu64 " (batch=%s), for %s in all; %" PRIu64
           " flushes came along\n",
           ask_number(o, "batch.waits"), ask_text(o, "batch.policy"),
           duration_text(ask_number(o, "batch.waits_ns"), waited),
           ask_number(o, "batch.company"));
    if (ask_number(o, "commits.failed") > 0)
        printf("  failed        %" PRIu64 "\n", ask_number(o, "commits.failed"));
}

static void print_writeback(const json_t *o)
{
    char home[SIZE_TEXT_BYTES], waited[DURATION_TEXT_BYTES];

    printf("writeback       %s in %" PRIu64 " checkpoint%s%s\n",
           size_text(ask_number(o, "writeback.bytes"), home),
           ask_number(o, "writeback.checkpoints"),
           ask_number(o, "writeback.checkpoints") == 1 ? "" : "s",
           ask_flag(o, "writeback.running") ? ", and one under way" : "");
    if (ask_number(o, "writeback.failed") > 0)
        printf("  failed        %" PRIu64 "\n", ask_number(o, "writeback.failed"));
    printf("bypass          %s went straight to the images, in %" PRIu64 " write%s\n",
           size_text(ask_number(o, "bypass.bytes"), home), ask_number(o, "bypass.writes"),
           ask_number(o, "bypass.writes") == 1 ? "" : "s");
    printf("throttled       %" PRIu64 " change%s, for %s in all; %" PRIu64 " now\n",
           ask_number(o, "throttle.count"), ask_number(o, "throttle.count") == 1 ? "" : "s",
           duration_text(ask_number(o, "throttle.ns"), waited),
           ask_number(o, "throttle.waiting"));
}

/* A name is whatever somebody called a file or a program: it can't end the line, or command the
 * terminal. */
static void print_row(const char *name, const json_t *o)
{
    char size[SIZE_TEXT_BYTES], text[25];
    size_t n = 0;

    for (; n < sizeof(text) - 1 && name[n] != '\0'; n++) {
        unsigned char c = (unsigned char)name[n];

        text[n] = c < ' ' || c == 0x7f ? '?' : (char)c;
    }
    text[n] = '\0';
    printf("  %-24s %9" PRIu64 " %9" PRIu64 " %10s %9" PRIu64 " %7" PRIu64 "\n", text,
           ask_number(o, "reads"),
           ask_number(o, "writes") + ask_number(o, "trims") + ask_number(o, "zeroes"),
           size_text(ask_number(o, "write_bytes"), size), ask_number(o, "flushes"),
           ask_number(o, "errors"));
}

/* What it waited for, in a second line if there is anything to say. */
static void print_waits(const json_t *o)
{
    char p50[DURATION_TEXT_BYTES], p99[DURATION_TEXT_BYTES], p999[DURATION_TEXT_BYTES];
    uint64_t commits = ask_number(o, "commits"), flushes = ask_number(o, "commit_time.count");

    if (flushes > 0)
        printf("    %" PRIu64 " flush%s in %" PRIu64
               " commit%s: p50 %s, p99 %s, p99.9 %s; %" PRIu64 " held back, %" PRIu64
               " came along\n",
               flushes, flushes == 1 ? "" : "es", commits, commits == 1 ? "" : "s",
               duration_text(ask_number(o, "commit_time.p50_ns"), p50),
               duration_text(ask_number(o, "commit_time.p99_ns"), p99),
               duration_text(ask_number(o, "commit_time.p999_ns"), p999), ask_number(o, "held"),
               ask_number(o, "company"));
    if (ask_number(o, "throttled") > 0)
        printf("    throttled: %" PRIu64 " change%s, for %s in all\n",
               ask_number(o, "throttled"), ask_number(o, "throttled") == 1 ? "" : "s",
               duration_text(ask_number(o, "throttled_ns"), p50));
}

static void print_home(const json_t *o)
{
    char dirty[SIZE_TEXT_BYTES], home[SIZE_TEXT_BYTES], age[DURATION_TEXT_BYTES];

    printf("    %s waiting%s%s; %s written home\n",
           size_text(ask_number(o, "dirty_bytes"), dirty),
           ask_number(o, "oldest_ns") > 0 ? ", for at most " : "",
           ask_number(o, "oldest_ns") > 0 ? duration_text(ask_number(o, "oldest_ns"), age) : "",
           size_text(ask_number(o, "writeback_bytes"), home));
}

static void print_list(const json_t *o, const char *list, const char *title)
{
    const json_t *rows = json_object_get(o, list), *row;
    char left_out[64];

    printf("%-26s %9s %9s %10s %9s %7s\n", title, "reads", "changes", "written", "flushes",
           "errors");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *client, *name;
        char words[512];

        row = json_array_get(rows, i);
        client = ask_text(row, "client");
        name = ask_text(row, client != NULL ? "disk" : "name");
        if (name == NULL || *name == '\0')
            name = client != NULL ? "" : "(the image)";
        if (client != NULL)
            snprintf(words, sizeof(words), "%s %s", client, name);
        print_row(client != NULL ? words : name, row);
        print_waits(row);
        if (client == NULL)
            print_home(row);
        if (ask_flag(row, "lost"))
            printf("    LOST: every change fails; mend its image's disk, and start the server "
                   "again\n");
        else if (ask_text(row, "error") != NULL)
            printf("    its image can't be written: %s\n", ask_text(row, "error"));
    }
    snprintf(left_out, sizeof(left_out), "%s_left_out", list);
    if (ask_number(o, left_out) > 0)
        printf("  and %" PRIu64 " more\n", ask_number(o, left_out));
}

static void print_text(const json_t *o)
{
    print_server(o);
    print_commits(o);
    print_writeback(o);
    print_list(o, "disks", "disks");
    print_list(o, "clients", "clients");
}

enum tool_exit stats_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "SOCKET",
        .doc = "Says what a running server does: the one that was started with "
               "control=SOCKET."};
    struct stats_arguments a = {0};
    char why[ASK_WHY_BYTES];
    json_t *o;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    o = ask_control(a.socket, "stats", TIMEOUT_MS, why);
    if (o == NULL) {
        report_error("%s", why);
        return TOOL_FAILED;
    }
    if (a.form == FORM_JSON)
        return describe_json_print(o, JSON_INDENT(2));
    if (a.form == FORM_PROMETHEUS)
        prometheus_print(stdout, o);
    else
        print_text(o);
    json_decref(o);
    return TOOL_OK;
}
