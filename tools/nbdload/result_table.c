/* result_table: the result as a table. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exit_code.h"
#include "result.h"
#include "server.h"

double result_seconds(const struct load *load)
{
    double seconds = (load->m.load_end_ns - load->m.start_ns) / 1e9;

    return seconds > 0 ? seconds : 1e-9;
}

uint64_t result_torn_reads(const struct load *load)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; load->ledger != NULL && i < load->ledger->disk_count; i++)
        sum += load->ledger->disks[i].torn_reads;
    return sum;
}

static const char *size_text(uint64_t bytes, char text[24])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;

    while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 24, "%" PRIu64 " %s", bytes, units[unit]);
    return text;
}

static void print_latency(uint64_t ns)
{
    if (ns < 10000)
        printf(" %7.2f us", ns / 1e3);
    else if (ns < 1000000)
        printf(" %7.0f us", ns / 1e3);
    else if (ns < 1000000000)
        printf(" %7.2f ms", ns / 1e6);
    else
        printf(" %7.2f s ", ns / 1e9);
}

static void print_row(const char *name, const struct histogram *h, uint64_t bytes,
                      double seconds)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 0.999};

    if (h->count == 0)
        return;
    printf("%-12s %9" PRIu64 " %9.0f", name, h->count, h->count / seconds);
    if (bytes > 0)
        printf(" %9.1f", bytes / seconds / 0x1p20);
    else
        printf(" %9s", "");
    print_latency(histogram_mean(h));
    for (int i = 0; i < 4; i++)
        print_latency(histogram_quantile(h, quantiles[i]));
    print_latency(h->max);
    putchar('\n');
}

void result_print_headline(const struct load *load, FILE *out)
{
    const struct options *o = load->options;
    bool sized = o->pattern != PATTERN_FLUSH_ONLY && o->pattern != PATTERN_TRACE;
    char text[24];

    fprintf(out, "%s, ", pattern_name[o->pattern]);
    for (size_t i = 0; i < o->size_count && sized; i++)
        fprintf(out, "%s%s", size_text(o->sizes[i].bytes, text),
                i + 1 < o->size_count ? " + " : ", ");
    fprintf(out, "%u client%s x %u connection%s x %u in flight", o->clients,
            o->clients == 1 ? "" : "s", o->connections, o->connections == 1 ? "" : "s",
            o->in_flight);
    if (o->rate > 0)
        fprintf(out, ", %g/s%s", o->rate, o->poisson ? " poisson" : "");
    if (o->think_ns > 0)
        fprintf(out, ", think %g ms%s", o->think_ns / 1e6, o->poisson ? " poisson" : "");
    fprintf(out, ", %zu export%s, %.2f s", o->uri_count, o->uri_count == 1 ? "" : "s",
            result_seconds(load));
}

static void print_server(const struct load *load)
{
    const struct server *s = load->server;
    struct rates r;

    if (s == NULL)
        return;
    r = server_rates(s);
    printf("server: %" PRIu64 " commits that were waited for, %.2f flushes each; commit p50",
           rates_growth(&r, "commits.answered"), server_flushes_per_commit(s));
    print_latency(rates_commit_quantile(&r, 0.5));
    printf(", p99");
    print_latency(rates_commit_quantile(&r, 0.99));
    printf("; %" PRIu64 " held back for company\n", rates_growth(&r, "batch.waits"));
}

void result_print_table(const struct load *load)
{
    const struct measurement *m = &load->m;
    double seconds = result_seconds(load);

    result_print_headline(load, stdout);
    putchar('\n');
    printf("%-12s %9s %9s %9s %10s %10s %10s %10s %10s %10s\n", "", "count", "per s", "MiB/s",
           "mean", "p50", "p90", "p99", "p99.9", "max");
    print_row("operation", &m->operation, m->operation_bytes, seconds);
    for (int kind = 0; kind < REQUEST_KINDS; kind++)
        print_row(request_kind_name[kind], &m->request[kind], m->bytes[kind], seconds);
    if (m->final_flush.count > 0) {
        double flush_seconds = (m->flush_end_ns - m->flush_start_ns) / 1e9;
        print_row("final flush", &m->final_flush, 0, flush_seconds);
        printf("final flush: %.3f s, with the load %.3f s\n", flush_seconds,
               seconds + flush_seconds);
    }
    if (result_torn_reads(load) > 0)
        printf("sectors read half old and half new, while a write was in flight: %" PRIu64 "\n",
               result_torn_reads(load));
    print_server(load);
    if (m->behind > 0)
        printf("behind: %" PRIu64 " operations were due and not begun\n", m->behind);
}

void result_report_failures(const struct load *load)
{
    const struct measurement *m = &load->m;
    uint64_t shown = m->failed < FAILURES_KEPT ? m->failed : FAILURES_KEPT;

    if (load_exit_code(load) == EXIT_DONE)
        return;
    if (load->broken[0] != '\0')
        fprintf(stderr, "nbdload: %s\n", load->broken);
    for (uint64_t i = 0; i < shown; i++) {
        const struct failure *f = &m->failures[i];
        fprintf(stderr,
                "nbdload: %s of %" PRIu32 " bytes at %" PRIu64
                " (client %u, connection %u): %s\n",
                request_kind_name[f->kind], f->length, f->offset, f->client, f->connection,
                strerror(f->error));
    }
    if (m->failed > shown)
        fprintf(stderr, "nbdload: and %" PRIu64 " more errors\n", m->failed - shown);
    if (load->gone[0] != '\0')
        fprintf(stderr, "nbdload: %s\n", load->gone);
    if (load->signal != 0)
        fprintf(stderr, "nbdload: interrupted by signal %d\n", load->signal);
    if (m->sent > 0)
        fprintf(stderr,
                "nbdload: %" PRIu64 " requests sent, %" PRIu64 " answered, %" PRIu64
                " failed, %" PRIu64 " unanswered\n",
                m->sent, m->answered, m->failed, m->unanswered);
}
