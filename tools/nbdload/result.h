/* result: what a load got, for people and for programs. */
#ifndef NBDLOAD_RESULT_H
#define NBDLOAD_RESULT_H

#include <stdio.h>

#include <jansson.h>

#include "load.h"

void result_print_table(const struct load *load);

/* One line about the load, without its end. */
void result_print_headline(const struct load *load, FILE *out);

/* A page that needs nothing but itself. */
void result_write_html(const struct load *load, FILE *out);

/* Null: out of memory. */
json_t *result_json(const struct load *load);

/* What went wrong, on standard error, whatever form the result has. */
void result_report_failures(const struct load *load);

/* Of a load that is verified: see struct ledger_disk. */
uint64_t result_torn_reads(const struct load *load);

/* Seconds of the load, without the final flush. */
double result_seconds(const struct load *load);

#endif
