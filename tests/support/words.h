/* words: catches what is reported, so that a test can look at it. */
#ifndef TESTS_WORDS_H
#define TESTS_WORDS_H

#include <stdbool.h>

/* Reports go to a buffer (and to standard error if WORDS_SHOW is set) from here on. */
void words_begin(void);

/* Everything reported since words_begin or the last words_forget, one line each, with its level
 * ("error: ..."). */
const char *words_text(void);
bool words_contain(const char *part);
int words_count(const char *part); /* how often */
void words_forget(void);

#endif
