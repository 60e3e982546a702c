/* words: see words.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "words.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[65536]; /* [lock] what does not fit is dropped */
static size_t len;       /* [lock] */

static void __attribute__((format(printf, 2, 0)))
keep(enum report_level level, const char *format, va_list args)
{
    static const char *const names[] = {"debug", "info", "error"};
    char line[8192];
    int n = snprintf(line, sizeof(line), "%s: ", names[level]);

    vsnprintf(line + n, sizeof(line) - n, format, args);
    if (getenv("WORDS_SHOW") != NULL)
        fprintf(stderr, "%s\n", line);
    pthread_mutex_lock(&lock);
    n = snprintf(text + len, sizeof(text) - len, "%s\n", line);
    if (len + n < sizeof(text))
        len += n;
    pthread_mutex_unlock(&lock);
}

void words_begin(void)
{
    words_forget();
    report_set_sink(keep);
}

const char *words_text(void)
{
    return text;
}

bool words_contain(const char *part)
{
    return words_count(part) > 0;
}

int words_count(const char *part)
{
    int n = 0;

    pthread_mutex_lock(&lock);
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part))
        n++;
    pthread_mutex_unlock(&lock);
    return n;
}

void words_forget(void)
{
    pthread_mutex_lock(&lock);
    text[0] = '\0';
    len = 0;
    pthread_mutex_unlock(&lock);
}
