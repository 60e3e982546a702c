/* describe: a survey in words, for people and for programs. */
#ifndef NBDJOURNAL_DESCRIBE_H
#define NBDJOURNAL_DESCRIBE_H

#include <jansson.h>

#include "survey.h"

/* "clean", "needs replay", "damaged", "in motion" */
const char *describe_state(enum journal_state state);

/* "write", "trim", ... */
const char *describe_kind(enum record_kind kind);

/* "2026-07-31 12:00:00" in local time. */
#define DESCRIBE_TIME_BYTES 32
const char *describe_time(uint64_t time_us, char text[DESCRIBE_TIME_BYTES]);

/* One screen. */
void describe_print(const struct survey *s);

/* The same as an object; the caller's.  NULL: out of memory. */
json_t *describe_json(const struct survey *s);

/* Prints and frees it, as lines (info, check) or in one line (dump).  NULL is out of memory. */
enum tool_exit describe_json_print(json_t *object, size_t flags);

#endif
