/* nbdload: puts a load on NBD servers. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exit_code.h"
#include "load.h"
#include "load_setup.h"
#include "options.h"
#include "result.h"
#include "server.h"

static int print_json(const struct load *load)
{
    json_t *result = result_json(load);
    int r;

    if (result == NULL) {
        fprintf(stderr, "nbdload: out of memory\n");
        return -1;
    }
    r = json_dumpf(result, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(result);
    return r;
}

/* Before the load begins, so that nobody waits an hour for a mistyped path. */
static FILE *report_open(const struct options *o)
{
    FILE *report = fopen(o->report, "we");

    if (report == NULL)
        fprintf(stderr, "nbdload: %s: %s\n", o->report, strerror(errno));
    return report;
}

static int report_close(FILE *report, const struct load *load)
{
    bool failed;

    result_write_html(load, report);
    failed = ferror(report) != 0;
    if (fclose(report) != 0 || failed) {
        fprintf(stderr, "nbdload: %s: %s\n", load->options->report, strerror(errno));
        return -1;
    }
    return 0;
}

/* The ledger of the run, checked if it is an old one.  0 or an exit code. */
static int ledger_prepare(struct ledger *ledger, const struct options *o)
{
    struct verification result;
    int status = verify_open(ledger, o->ledger, o->uris, o->uri_count, true, o->range_start,
                             o->range_end, &o->check);

    if (status != EXIT_DONE || ledger->created)
        return status;
    for (size_t i = 0; i < o->uri_count; i++) {
        const struct ledger_disk *disk = &ledger->disks[i];
        if ((o->range_start != 0 && o->range_start != disk->start) ||
            (o->range_end != 0 && o->range_end != disk->end)) {
            fprintf(stderr, "nbdload: ledger %s: its range is %" PRIu64 "-%" PRIu64 "\n",
                    o->ledger, disk->start, disk->end);
            return EXIT_USAGE;
        }
    }
    status = verify_disks(ledger, o->uris, &o->check, &result);
    if (status == EXIT_BROKEN || (status == EXIT_DONE && !o->json))
        verification_print(&result, &o->check, o->uris);
    verification_free(&result);
    return status;
}

/* What the run tells, in all forms.  Its exit code. */
static int tell(const struct load *load, FILE *report)
{
    int status = load_exit_code(load);

    if (load->options->json) {
        if (print_json(load) < 0)
            status = EXIT_USAGE;
    } else if (load->m.operation.count > 0) {
        result_print_table(load);
    }
    result_report_failures(load);
    if (report != NULL && report_close(report, load) < 0)
        status = EXIT_USAGE;
    return status;
}

/* The load, and beside it what the server says of itself. */
static int run_asking(struct load *load, struct server *server)
{
    int r;

    if (load->options->control == NULL)
        return load_run(load);
    if (server_begin(server, load->options->control) < 0)
        return -1;
    r = load_run(load);
    server_end(server);
    load->server = server;
    return r;
}

static int run(struct options *options)
{
    static struct load load;     /* large: histograms */
    static struct server server; /* large: samples */
    struct trace trace = {0};
    struct ledger ledger = {.fd = -1};
    FILE *report = NULL;
    int status = EXIT_USAGE;

    if (options->trace != NULL) {
        if (trace_open(&trace, options->trace) < 0)
            goto out;
        options_fit_trace(options, &trace);
    }
    if (options->report != NULL) {
        report = report_open(options);
        if (report == NULL)
            goto out;
    }
    if (options->ledger != NULL) {
        status = ledger_prepare(&ledger, options);
        if (status != EXIT_DONE)
            goto out;
    }
    load_init(&load, options, options->ledger != NULL ? &ledger : NULL,
              options->trace != NULL ? &trace : NULL);
    status = EXIT_USAGE;
    if (run_asking(&load, &server) == 0) {
        status = tell(&load, report);
        report = NULL;
    }
    server_free(&server);
    load_destroy(&load);
out:
    if (report != NULL)
        fclose(report);
    ledger_close(&ledger);
    trace_close(&trace);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    int status;

    if (argc > 1 && strcmp(argv[1], "verify") == 0) {
        static char name[] = "nbdload verify"; /* for its messages */
        argv[1] = name;
        status = verify_main(argc - 1, argv + 1);
    } else {
        options_parse(&options, argc, argv);
        status = run(&options);
    }
    /* A result that could not be written is none. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("nbdload: standard output");
        status = EXIT_USAGE;
    }
    return status;
}
