/* report: how the journal tells people what happened.
 *
 * Errors in journal/ are returned as -errno and reported once, where they
 * happen, through this header: the plugin sends the words to nbdkit's log, the
 * tools to standard error, the simulator nowhere.  A library that printed by
 * itself could do only one of these.
 */
#ifndef JOURNAL_REPORT_H
#define JOURNAL_REPORT_H

#include <stdarg.h>

enum report_level {
    REPORT_DEBUG, /* for developers; seen with nbdkit -v */
    REPORT_INFO,  /* one line that an operator should see once */
    REPORT_ERROR, /* something failed; says the object, why, and the way out */
};

/* Where reports go.  Set once, before any other call into journal/, by the
 * program's main thread; null (the default) throws them away.  The sink may be
 * called from any thread, also with locks held: it must not call back. */
typedef void report_sink(enum report_level level, const char *format, va_list args);
void report_set_sink(report_sink *sink);

/* What the system says of an error number (of either sign), and what a person can do about it:
 * "Permission denied; give it to this user, ...".  For the end of a report that names the object;
 * until the thread's next call. */
const char *report_reason(int error);

void report_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
