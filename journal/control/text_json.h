/* text_json: names and paths as strings of JSON. */
#ifndef JOURNAL_TEXT_JSON_H
#define JOURNAL_TEXT_JSON_H

#include <jansson.h>

/* Paths are bytes, JSON wants UTF-8: what is none is taken for Latin-1, so that nothing is lost.
 * NULL: out of memory. */
json_t *text_json(const char *text);

#endif
