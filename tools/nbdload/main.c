/* nbdload: puts a load on NBD servers. */
#include <stdio.h>
#include <stdlib.h>

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

int main(int argc, char **argv)
{
    static struct load load; /* large: histograms */
    struct options options;
    int status;

    options_parse(&options, argc, argv);
    if (load_init(&load, &options) < 0)
        return EXIT_USAGE;
    load_run(&load);
    status = load_exit_code(&load);
    if (options.json) {
        if (print_json(&load) < 0)
            status = EXIT_USAGE;
    } else if (load.m.operation.count > 0) {
        result_print_table(&load);
    }
    result_report_failures(&load);
    load_destroy(&load);
    /* A result that could not be written is none. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("nbdload: standard output");
        status = EXIT_USAGE;
    }
    return status;
}
