/* nbdload: puts a load on NBD servers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "load.h"
#include "options.h"
#include "result.h"

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
            ledger_close(ledger);
            return EXIT_USAGE;
        }
    }
    status = verify_disks(ledger, o->uris, &o->check, &result);
    if (status == EXIT_BROKEN || (status == EXIT_DONE && !o->json))
        verification_print(&result, &o->check, o->uris);
    verification_free(&result);
    if (status != EXIT_DONE)
        ledger_close(ledger);
    return status;
}

static int run(const struct options *options)
{
    static struct load load; /* large: histograms */
    struct ledger ledger;
    int status;

    if (options->ledger != NULL) {
        status = ledger_prepare(&ledger, options);
        if (status != EXIT_DONE)
            return status;
    }
    load_init(&load, options, options->ledger != NULL ? &ledger : NULL);
    status = load_run(&load) < 0 ? EXIT_USAGE : load_exit_code(&load);
    if (options->json) {
        if (print_json(&load) < 0)
            status = EXIT_USAGE;
    } else if (load.m.operation.count > 0) {
        result_print_table(&load);
    }
    result_report_failures(&load);
    load_destroy(&load);
    if (options->ledger != NULL)
        ledger_close(&ledger);
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
