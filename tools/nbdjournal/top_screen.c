/* top_screen: see top_screen.h.
 *
 *   nbdjournal top  /run/disk.control                        process 4711, up 3 h
 *   journal    /srv/disk.img.journal: active
 *   ring       [##############................]  47 %   61 MiB of 128 MiB
 *   waiting    45 MiB, the oldest for 1.2 s
 *   commits    812 /s  p50 1.21 ms  p99 4.60 ms  p99.9 9.80 ms  3.20 flushes each
 *   held back  120 /s   for 310 us each, 2.1 flushes came along (rally)
 *   writeback  12 MiB/s   bypass 0 B/s   a checkpoint is under way
 *   throttled  0 /s, 0 wait now   requests failed 0   checkpoints failed 0
 *
 *   DISK, CLIENT               reads/s changes/s flushes/s  written/s      dirty errors
 *   a.img                           12      400        20    8.5 MiB/s   2.2 MiB      0
 *     qemu[1234]                    12      400        20    8.5 MiB/s                0
 *
 * and, in turn, with other columns:
 *
 *   DISK, CLIENT             commits/s  each     p50     p99   p99.9  held/s came/s
 *   DISK, CLIENT                  dirty    oldest  writeback  throttled/s   for each
 *
 * It fits 80 columns and 24 lines; in fewer what does not fit is cut off. */
#include <curses.h>
#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "duration.h"
#include "size.h"
#include "top_screen.h"

#define BAR_CELLS 30
#define VALUE_X 11
#define TABLE_Y 9 /* its head; rows come below */

/* The columns of a table, by their right edges. */
#define COLUMNS_MAX 7
struct column {
    const char *head;
    int edge;
};
static const struct column columns[TOP_TABLES][COLUMNS_MAX + 1] = {
    [TOP_REQUESTS] = {{"reads/s", 33},
                      {"changes/s", 43},
                      {"flushes/s", 53},
                      {"written", 63},
                      {"dirty", 73},
                      {"errors", 80}},
    [TOP_COMMITS] = {{"commits/s", 35},
                     {"each", 41},
                     {"p50", 49},
                     {"p99", 57},
                     {"p99.9", 65},
                     {"held/s", 73},
                     {"came/s", 80}},
    [TOP_WAITING] = {{"dirty", 36},
                     {"oldest", 46},
                     {"writeback", 57},
                     {"throttled/s", 69},
                     {"for each", 79}},
};
#define NAME_WIDTH 26

static SCREEN *screen;

bool top_screen_begin(void)
{
    setlocale(LC_CTYPE, "");
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return false;
    set_term(screen);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    return true;
}

void top_screen_end(void)
{
    endwin();
    delscreen(screen);
}

int top_screen_key(int timeout_ms)
{
    timeout(timeout_ms);
    return getch();
}

/* A name is whatever somebody called a file or a program: no control characters reach the
 * terminal, and nothing but ASCII one that knows no more. */
static void put_name(int y, int x, const char *name, int width)
{
    char text[512];
    size_t n = 0;

    for (; name != NULL && *name != '\0' && n < sizeof(text) - 1; name++) {
        unsigned char c = (unsigned char)*name;

        text[n++] = c < ' ' || c == 0x7f || (c >= 0x80 && MB_CUR_MAX == 1) ? '?' : (char)c;
    }
    text[n] = '\0';
    mvaddnstr(y, x, text, width);
}

static void put_right(int y, int edge, const char *text)
{
    int count = (int)strlen(text);

    if (edge <= COLS && count <= edge)
        mvaddstr(y, edge - count, text);
}

static const char *rate_text(double rate, char text[32])
{
    if (rate >= 99999.5)
        snprintf(text, 32, "%.0fk", rate / 1000);
    else
        snprintf(text, 32, "%.*f", rate > 0 && rate < 9.95 ? 1 : 0, rate);
    return text;
}

/* At most 9 characters. */
static const char *bytes_text(uint64_t bytes, char text[SIZE_TEXT_BYTES + 2])
{
    if (bytes < 1024)
        snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " B", bytes);
    else
        size_text(bytes, text);
    return text;
}

static const char *bytes_rate_text(double rate, char text[SIZE_TEXT_BYTES + 2])
{
    bytes_text((uint64_t)rate, text);
    strcat(text, "/s");
    return text;
}

static void put_line(int y, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put_line(int y, const char *name, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    attron(A_BOLD);
    mvaddstr(y, 0, name);
    attroff(A_BOLD);
    put_name(y, VALUE_X, text, COLS - VALUE_X);
}

/* ---- the server ---- */

static void draw_title(const struct top_view *view)
{
    const json_t *now = view->pair.now;
    char text[128], up[DURATION_TEXT_BYTES];

    attron(A_REVERSE);
    mvhline(0, 0, ' ', COLS);
    mvaddstr(0, 0, "nbdjournal top");
    if (now != NULL) {
        snprintf(text, sizeof(text), "process %" PRIu64 ", up %s%s", ask_number(now, "pid"),
                 duration_text(ask_number(now, "uptime_ns"), up),
                 view->paused ? ", PAUSED" : "");
        put_right(0, COLS, text);
    }
    put_name(0, 16, view->socket, COLS - 60 > 20 ? COLS - 60 : 20);
    attroff(A_REVERSE);
}

static void draw_ring(const json_t *now)
{
    uint64_t used = ask_number(now, "journal.used_bytes");
    uint64_t all = ask_number(now, "journal.ring_bytes");
    char used_text[SIZE_TEXT_BYTES], all_text[SIZE_TEXT_BYTES], bar[BAR_CELLS + 1];
    unsigned percent = all == 0 ? 0 : (unsigned)(used * 100 / all);

    for (unsigned i = 0; i < BAR_CELLS; i++)
        bar[i] = i * 100 < percent * BAR_CELLS ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    put_line(2, "ring", "[%s] %3u %%   %s of %s", bar, percent, size_text(used, used_text),
             size_text(all, all_text));
}

static void draw_journal(const json_t *now)
{
    const char *path = ask_text(now, "journal.path"), *state = ask_text(now, "journal.state");
    char dirty[SIZE_TEXT_BYTES], age[DURATION_TEXT_BYTES];
    uint64_t oldest_ns = ask_number(now, "journal.oldest_ns");

    put_line(1, "journal", "%s: %s%s", path != NULL ? path : "none", state != NULL ? state : "",
             ask_flag(now, "journal.read_only") ? ", read-only" : "");
    if (ask_flag(now, "journal.failed")) {
        attron(A_REVERSE);
        put_line(1, "journal", "FAILED: every write and flush fails until it is started again");
        attroff(A_REVERSE);
    }
    draw_ring(now);
    put_line(3, "waiting", "%s%s%s%s", size_text(ask_number(now, "journal.dirty_bytes"), dirty),
             oldest_ns > 0 ? ", the oldest for " : "",
             oldest_ns > 0 ? duration_text(oldest_ns, age) : "",
             oldest_ns > 0 ? "" : ": all is home");
}

static void draw_commits(const struct rates *p)
{
    uint64_t answered = rates_growth(p, "commits.answered"),
             waits = rates_growth(p, "batch.waits");
    char rate[32], p50[DURATION_TEXT_BYTES], p99[DURATION_TEXT_BYTES],
        p999[DURATION_TEXT_BYTES], each[DURATION_TEXT_BYTES];
    const char *policy = ask_text(p->now, "batch.policy");

    put_line(4, "commits", "%s /s  p50 %s  p99 %s  p99.9 %s  %.2f flushes each",
             rate_text(rates_per_second(p, "commits.count"), rate),
             duration_text(rates_commit_quantile(p, 0.5), p50),
             duration_text(rates_commit_quantile(p, 0.99), p99),
             duration_text(rates_commit_quantile(p, 0.999), p999),
             answered == 0 ? 0.
                           : (double)rates_growth(p, "commits.flushes") / (double)answered);
    put_line(5, "held back", "%s /s   for %s each, %.1f flushes came along   (%s)",
             rate_text(rates_per_second(p, "batch.waits"), rate),
             duration_text(waits == 0 ? 0 : rates_growth(p, "batch.waits_ns") / waits, each),
             waits == 0 ? 0. : (double)rates_growth(p, "batch.company") / (double)waits,
             policy != NULL ? policy : "");
}

static void draw_flow(const struct rates *p)
{
    char bytes[SIZE_TEXT_BYTES + 2], bypass[SIZE_TEXT_BYTES + 2], rate[32];
    uint64_t errors = ask_number(p->now, "requests.errors");
    uint64_t failed = ask_number(p->now, "writeback.failed");

    put_line(6, "writeback", "%s   bypass %s%s",
             bytes_rate_text(rates_per_second(p, "writeback.bytes"), bytes),
             bytes_rate_text(rates_per_second(p, "bypass.bytes"), bypass),
             ask_flag(p->now, "writeback.running") ? "   a checkpoint is under way" : "");
    put_line(7, "throttled",
             "%s /s, %" PRIu64 " wait now   requests failed %" PRIu64
             "   checkpoints failed %" PRIu64,
             rate_text(rates_per_second(p, "throttle.count"), rate),
             ask_number(p->now, "throttle.waiting"), errors, failed);
}

/* ---- disks and clients ---- */

struct table {
    int y;         /* where the next row goes */
    unsigned skip; /* rows that are above */
    unsigned rows; /* so far */
};

static bool next_row(struct table *t)
{
    t->rows++;
    if (t->skip > 0) {
        t->skip--;
        return false;
    }
    t->y++;
    return t->y < LINES - 1; /* the last line is for the keys */
}

/* What the cells of a row are made in: column i of the table that is shown. */
struct cells {
    int y;
    const struct column *columns;
};

static void put_cell(const struct cells *c, unsigned i, const char *text)
{
    put_right(c->y, c->columns[i].edge, text);
}

static void put_rate(const struct cells *c, unsigned i, double rate)
{
    char text[32];

    put_cell(c, i, rate_text(rate, text));
}

static void put_duration(const struct cells *c, unsigned i, uint64_t ns)
{
    char text[DURATION_TEXT_BYTES];

    put_cell(c, i, ns == 0 ? "-" : duration_text(ns, text));
}

static void put_requests(const struct cells *c, const struct rates *row, bool is_disk)
{
    char text[SIZE_TEXT_BYTES + 2];

    put_rate(c, 0, rates_per_second(row, "reads"));
    put_rate(c, 1,
             rates_per_second(row, "writes") + rates_per_second(row, "trims") +
                 rates_per_second(row, "zeroes"));
    put_rate(c, 2, rates_per_second(row, "flushes"));
    put_cell(c, 3, bytes_rate_text(rates_per_second(row, "write_bytes"), text));
    if (is_disk)
        put_cell(c, 4, bytes_text(ask_number(row->now, "dirty_bytes"), text));
    snprintf(text, sizeof(text), "%" PRIu64, ask_number(row->now, "errors"));
    put_cell(c, 5, text);
}

static void put_commits(const struct cells *c, const struct rates *row)
{
    uint64_t commits = rates_growth(row, "commits");
    char text[32];

    put_rate(c, 0, rates_per_second(row, "commits"));
    snprintf(text, sizeof(text), "%.2f",
             commits == 0 ? 0.
                          : (double)rates_growth(row, "commit_time.count") / (double)commits);
    put_cell(c, 1, text);
    put_duration(c, 2, rates_quantile(row, "commit_time", 0.5));
    put_duration(c, 3, rates_quantile(row, "commit_time", 0.99));
    put_duration(c, 4, rates_quantile(row, "commit_time", 0.999));
    put_rate(c, 5, rates_per_second(row, "held"));
    put_rate(c, 6, rates_per_second(row, "company"));
}

static void put_waiting(const struct cells *c, const struct rates *row, bool is_disk)
{
    char text[SIZE_TEXT_BYTES + 2];
    uint64_t throttled = rates_growth(row, "throttled");

    if (is_disk) {
        put_cell(c, 0, bytes_text(ask_number(row->now, "dirty_bytes"), text));
        put_duration(c, 1, ask_number(row->now, "oldest_ns"));
        put_cell(c, 2, bytes_rate_text(rates_per_second(row, "writeback_bytes"), text));
    }
    put_rate(c, 3, rates_per_second(row, "throttled"));
    put_duration(c, 4, throttled == 0 ? 0 : rates_growth(row, "throttled_ns") / throttled);
}

static void draw_row(struct table *t, const struct top_view *view, const struct rates *row,
                     const char *name, int indent, bool is_disk)
{
    struct cells c = {.columns = columns[view->table]};

    if (!next_row(t))
        return;
    c.y = t->y;
    put_name(c.y, indent, name, NAME_WIDTH - indent);
    if (view->table == TOP_REQUESTS)
        put_requests(&c, row, is_disk);
    else if (view->table == TOP_COMMITS)
        put_commits(&c, row);
    else
        put_waiting(&c, row, is_disk);
}

static void draw_clients(struct table *t, const struct top_view *view, const char *disk)
{
    const json_t *clients = ask_member(view->pair.now, "clients");

    for (size_t i = 0; i < json_array_size(clients); i++) {
        struct rates row = rates_row(&view->pair, "clients", i);
        const char *of = ask_text(row.now, "disk");

        if (of != NULL && strcmp(of, disk) == 0)
            draw_row(t, view, &row, ask_text(row.now, "client"), 2, false);
    }
}

static void draw_table_head(const struct top_view *view)
{
    attron(A_BOLD | A_UNDERLINE);
    mvhline(TABLE_Y, 0, ' ', COLS);
    mvaddstr(TABLE_Y, 0, "DISK, CLIENT");
    for (const struct column *c = columns[view->table]; c->head != NULL; c++)
        put_right(TABLE_Y, c->edge, c->head);
    attroff(A_BOLD | A_UNDERLINE);
}

static void draw_table(struct top_view *view)
{
    const json_t *disks = ask_member(view->pair.now, "disks");
    struct table t = {.y = TABLE_Y, .skip = view->scroll};

    draw_table_head(view);
    for (size_t i = 0; i < json_array_size(disks); i++) {
        struct rates row = rates_row(&view->pair, "disks", i);
        const char *name = ask_text(row.now, "name"), *error = ask_text(row.now, "error");
        char words[128];

        draw_row(&t, view, &row, name != NULL && *name != '\0' ? name : "(the image)", 0, true);
        if ((error != NULL || ask_flag(row.now, "lost")) && next_row(&t)) {
            snprintf(words, sizeof(words), "%s%s",
                     ask_flag(row.now, "lost") ? "LOST: every change fails until the next start"
                                               : "its image can't be written: ",
                     error != NULL && !ask_flag(row.now, "lost") ? error : "");
            attron(A_REVERSE);
            put_name(t.y, 2, words, COLS - 2);
            attroff(A_REVERSE);
        }
        if (view->clients)
            draw_clients(&t, view, name != NULL ? name : "");
    }
    /* Never further than to the last row. */
    if (view->scroll >= t.rows)
        view->scroll = t.rows > 0 ? t.rows - 1 : 0;
}

void top_screen_draw(struct top_view *view)
{
    erase();
    draw_title(view);
    if (view->pair.now != NULL) {
        draw_journal(view->pair.now);
        draw_commits(&view->pair);
        draw_flow(&view->pair);
        draw_table(view);
    }
    mvhline(LINES - 1, 0, ' ', COLS);
    mvaddnstr(LINES - 1, 0, "q quit   p pause   c clients   v other columns   up, down: scroll",
              COLS - 1);
    if (view->trouble != NULL) {
        attron(A_REVERSE);
        mvhline(8, 0, ' ', COLS);
        put_name(8, 0, view->trouble, COLS);
        attroff(A_REVERSE);
    }
    refresh();
}
