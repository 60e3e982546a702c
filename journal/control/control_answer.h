/* control_answer: what is answered to a line. */
#ifndef JOURNAL_CONTROL_ANSWER_H
#define JOURNAL_CONTROL_ANSWER_H

#include <stddef.h>

struct engine;

/* The answer, with its newline, to be freed.  NULL: out of memory. */
char *control_answer(struct engine *e, const char *line, size_t count);
char *control_refuse(const char *why);

#endif
