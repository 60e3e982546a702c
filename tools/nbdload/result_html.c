/* result_html: the result as a page that needs nothing but itself, and no scripts. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "exit_code.h"
#include "plot.h"
#include "result.h"
#include "server.h"

#define CURVE_POINTS 121
#define NINES_MAX 6.0 /* to 99.9999% */

static void time_text(double us, char *text, size_t size)
{
    if (us < 1000)
        snprintf(text, size, "%g us", us);
    else if (us < 1e6)
        snprintf(text, size, "%g ms", us / 1e3);
    else
        snprintf(text, size, "%g s", us / 1e6);
}

/* A latency in a table's cell: three figures. */
static void latency_text(uint64_t ns, char *text, size_t size)
{
    double us = ns / 1e3;
    double digits = us > 0 ? pow(10, 2 - floor(log10(us))) : 1;

    time_text(round(us * digits) / digits, text, size);
}

static void count_text(double value, char *text, size_t size)
{
    if (value >= 1e6)
        snprintf(text, size, "%gM", value / 1e6);
    else if (value >= 1e3)
        snprintf(text, size, "%gk", value / 1e3);
    else
        snprintf(text, size, "%g", value);
}

static void nines_text(double nines, char *text, size_t size)
{
    snprintf(text, size, "%.*f%%", nines > 2 ? (int)nines - 2 : 0, 100 * (1 - pow(10, -nines)));
}

/* ---- plots ---- */

static void write_throughput(FILE *out, const struct measurement *m)
{
    double x[SLICES_MAX], y[SLICES_MAX], seconds = m->slice_ns / 1e9;
    struct plot_line line = {.name = "operations", .x = x, .y = y};
    struct plot plot = {
        .title = "Throughput over time",
        .x_title = "seconds",
        .y_title = "operations per second",
        .lines = &line,
        .line_count = 1,
        .y_text = count_text,
        .x_max = (m->load_end_ns - m->start_ns) / 1e9,
    };

    for (unsigned i = 0; i < m->slice_count; i++) {
        double length = fmin(plot.x_max - i * seconds, seconds);

        /* A rest of a slice says nothing. */
        if (length < seconds / 2 && i > 0)
            break;
        x[line.count] = fmin((i + 0.5) * seconds, plot.x_max);
        y[line.count++] = m->slices[i].operations / fmax(length, 1e-6);
    }
    plot_write(out, &plot);
}

static void write_latency_over_time(FILE *out, const struct measurement *m)
{
    double x[SLICES_MAX], mean[SLICES_MAX], max[SLICES_MAX], seconds = m->slice_ns / 1e9;
    struct plot_line lines[] = {{.name = "slowest", .x = x, .y = max},
                                {.name = "mean", .x = x, .y = mean}};
    struct plot plot = {
        .title = "Latency of an operation over time",
        .x_title = "seconds",
        .y_title = "latency of an operation",
        .y_log = true,
        .lines = lines,
        .line_count = 2,
        .y_text = time_text,
        .x_max = (m->load_end_ns - m->start_ns) / 1e9,
    };
    size_t count = 0;

    for (unsigned i = 0; i < m->slice_count; i++) {
        const struct slice *s = &m->slices[i];
        if (s->operations == 0)
            continue;
        x[count] = fmin((i + 0.5) * seconds, plot.x_max);
        mean[count] = s->latency_sum_ns / 1e3 / s->operations;
        max[count++] = s->latency_max_ns / 1e3;
    }
    lines[0].count = lines[1].count = count;
    plot_write(out, &plot);
}

/* The quantile is drawn by its nines, as far as there are so many values. */
static size_t curve_of(const struct histogram *h, double *x, double *y)
{
    size_t count = 0;
    double last = fmin(NINES_MAX, log10(fmax(h->count, 1)));

    for (int i = 0; i < CURVE_POINTS; i++) {
        double nines = NINES_MAX * i / (CURVE_POINTS - 1);
        if (nines > last)
            nines = last;
        x[count] = nines;
        y[count++] = histogram_quantile(h, 1 - pow(10, -nines)) / 1e3;
        if (nines >= last)
            break;
    }
    return count;
}

static void write_latency(FILE *out, const struct measurement *m)
{
    static double x[PLOT_LINES_MAX][CURVE_POINTS], y[PLOT_LINES_MAX][CURVE_POINTS];
    struct plot_line lines[PLOT_LINES_MAX];
    struct plot plot = {
        .title = "Latency by percentile",
        .x_title = "percentile",
        .y_title = "latency",
        .y_log = true,
        .lines = lines,
        .x_text = nines_text,
        .y_text = time_text,
        .x_step = 1,
    };
    size_t n = 0;

    for (int i = -1; i < REQUEST_KINDS; i++) {
        const struct histogram *h = i < 0 ? &m->operation : &m->request[i];
        if (h->count == 0 || n == PLOT_LINES_MAX)
            continue;
        lines[n] = (struct plot_line){i < 0 ? "operation" : request_kind_name[i], x[n], y[n],
                                      curve_of(h, x[n], y[n])};
        plot.x_max = fmax(plot.x_max, x[n][lines[n].count - 1]);
        n++;
    }
    plot.line_count = n;
    plot_write(out, &plot);
}

static void write_server(FILE *out, const struct load *load)
{
    static double x[SERVER_SAMPLES_MAX], y[SERVER_SAMPLES_MAX];
    const struct server *s = load->server;
    struct rates r = server_rates(s);
    char p50[32], p99[32];
    struct plot_line line = {.name = "flushes per commit", .x = x, .y = y};
    struct plot plot = {
        .title = "Flushes per commit over time",
        .x_title = "seconds",
        .y_title = "flushes that a commit answers",
        .lines = &line,
        .line_count = 1,
        .y_text = count_text,
        .x_max = result_seconds(load),
    };
    double rate;

    for (unsigned j = 0; j < s->sample_count; j++) {
        if (server_piece(s, j, load->m.start_ns, &x[line.count], &y[line.count], &rate) &&
            x[line.count] <= plot.x_max)
            line.count++;
    }
    latency_text(rates_commit_quantile(&r, 0.5), p50, sizeof p50);
    latency_text(rates_commit_quantile(&r, 0.99), p99, sizeof p99);
    fprintf(out,
            "<h2>Flushes per commit</h2>\n<p>The server made %" PRIu64
            " commits that somebody waited for; each answered %.2f flushes. A commit took %s "
            "(p50), %s (p99). %" PRIu64 " were held back for company.</p>\n",
            rates_growth(&r, "commits.answered"), server_flushes_per_commit(s), p50, p99,
            rates_growth(&r, "batch.waits"));
    if (line.count > 1)
        plot_write(out, &plot);
}

/* ---- words ---- */

static void write_row(FILE *out, const char *name, const struct histogram *h, uint64_t bytes,
                      double seconds)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 0.999, 1};
    char text[32];

    if (h->count == 0)
        return;
    fprintf(out, "<tr><th>%s</th><td>%" PRIu64 "</td><td>%.0f</td>", name, h->count,
            h->count / seconds);
    if (bytes > 0)
        fprintf(out, "<td>%.1f</td>", bytes / seconds / 0x1p20);
    else
        fputs("<td></td>", out);
    latency_text(histogram_mean(h), text, sizeof text);
    fprintf(out, "<td>%s</td>", text);
    for (int i = 0; i < 5; i++) {
        latency_text(histogram_quantile(h, quantiles[i]), text, sizeof text);
        fprintf(out, "<td>%s</td>", text);
    }
    fputs("</tr>\n", out);
}

static void write_table(FILE *out, const struct load *load)
{
    const struct measurement *m = &load->m;
    double seconds = result_seconds(load), flush_seconds;

    fputs("<table><tr><th></th><th>count</th><th>per s</th><th>MiB/s</th><th>mean</th>"
          "<th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th></tr>\n",
          out);
    write_row(out, "operation", &m->operation, m->operation_bytes, seconds);
    for (int kind = 0; kind < REQUEST_KINDS; kind++)
        write_row(out, request_kind_name[kind], &m->request[kind], m->bytes[kind], seconds);
    flush_seconds = (m->flush_end_ns - m->flush_start_ns) / 1e9;
    write_row(out, "final flush", &m->final_flush, 0, flush_seconds);
    fputs("</table>\n", out);
    if (m->final_flush.count > 0)
        fprintf(out, "<p>Final flush: %.3f s; with the load %.3f s.</p>\n", flush_seconds,
                seconds + flush_seconds);
    if (m->behind > 0)
        fprintf(out, "<p>Behind: %" PRIu64 " operations were due and not begun.</p>\n",
                m->behind);
}

static void write_failures(FILE *out, const struct load *load)
{
    const struct measurement *m = &load->m;

    fprintf(out,
            "<p>Requests: %" PRIu64 " sent, %" PRIu64 " answered, %" PRIu64 " failed, %" PRIu64
            " unanswered.</p>\n",
            m->sent, m->answered, m->failed, m->unanswered);
    if (load_exit_code(load) == EXIT_DONE)
        return;
    fputs("<ul class=\"bad\">\n", out);
    for (uint64_t i = 0; i < m->failed && i < FAILURES_KEPT; i++) {
        const struct failure *f = &m->failures[i];
        fprintf(out,
                "<li>%s of %" PRIu32 " bytes at %" PRIu64
                " (client %u, connection %u): %s</li>\n",
                request_kind_name[f->kind], f->length, f->offset, f->client, f->connection,
                strerror(f->error));
    }
    if (load->broken[0] != '\0') {
        fputs("<li>", out);
        plot_write_text(out, load->broken);
        fputs("</li>\n", out);
    }
    if (load->gone[0] != '\0') {
        fputs("<li>", out);
        plot_write_text(out, load->gone);
        fputs("</li>\n", out);
    }
    if (load->signal != 0)
        fprintf(out, "<li>interrupted by signal %d</li>\n", load->signal);
    fputs("</ul>\n", out);
}

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>nbdload</title>\n"
    "<style>\n"
    "body { font: 15px/1.4 sans-serif; color: #111; background: #fff; max-width: 60em; "
    "margin: 1.5em auto; padding: 0 1em }\n"
    "table { border-collapse: collapse } td, th { padding: 0.2em 0.7em; text-align: right; "
    "border-bottom: 1px solid #ccc }\n"
    "th:first-child { text-align: left } .bad { color: #a00000 }\n"
    "svg { width: 100%; height: auto; font-size: 12px }\n"
    ".grid { stroke: #ddd } .frame { fill: none; stroke: #888 } svg text { fill: #111 }\n"
    "</style></head><body>\n";

void result_write_html(const struct load *load, FILE *out)
{
    const struct measurement *m = &load->m;
    char date[64];
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &utc);
    fputs(head, out);
    fputs("<h1>", out);
    result_print_headline(load, out);
    fprintf(out, "</h1>\n<p>nbdload %s, %s. Exports:", PACKAGE_VERSION, date);
    for (size_t i = 0; i < load->options->uri_count; i++) {
        fputs(i > 0 ? ", <code>" : " <code>", out);
        plot_write_text(out, load->targets[i].uri);
        fprintf(out, "</code> (%" PRIu64 " bytes)", load->targets[i].size);
    }
    fputs("</p>\n", out);
    write_failures(out, load);
    if (m->operation.count > 0) {
        write_table(out, load);
        fputs("<h2>Throughput over time</h2>\n", out);
        write_throughput(out, m);
        fputs("<h2>Latency over time</h2>\n", out);
        write_latency_over_time(out, m);
        if (load->server != NULL)
            write_server(out, load);
        fputs("<h2>Latency by percentile</h2>\n", out);
        write_latency(out, m);
    } else {
        fputs("<p>Nothing was measured.</p>\n", out);
    }
    fputs("</body></html>\n", out);
}
