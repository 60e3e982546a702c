/* log: the words of journal/ go to nbdkit's log, its error numbers to NBD's wire.
 *
 * Errors: nbdkit_error.  Debug: nbdkit_debug, seen with nbdkit -v.  In between nbdkit has
 * nothing: its "error:" prefix would be wrong for "recovery found 3 changes", and debug would
 * hide it from everybody.  So a line of information goes where nbdkit's own errors go by default:
 * to standard error, or, once nbdkit runs in the background with standard error on /dev/null, to
 * syslog.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <syslog.h>
#include <unistd.h>

#include "plugin.h"
#include "report.h"

static bool stderr_is_lost(void)
{
    struct stat st;

    return fstat(STDERR_FILENO, &st) < 0 ||
           (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)); /* /dev/null */
}

static void report_information(const char *format, va_list args)
    __attribute__((format(printf, 1, 0)));
static void report_information(const char *format, va_list args)
{
    char line[2048];

    /* In one piece, so that lines of several threads do not mix. */
    vsnprintf(line, sizeof(line), format, args);
    if (stderr_is_lost())
        syslog(LOG_INFO, "journal: %s", line);
    else
        fprintf(stderr, "nbdkit: journal: %s\n", line);
}

static void sink(enum report_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void sink(enum report_level level, const char *format, va_list args)
{
    switch (level) {
    case REPORT_DEBUG:
        nbdkit_vdebug(format, args);
        break;
    case REPORT_INFO:
        report_information(format, args);
        break;
    case REPORT_ERROR:
        nbdkit_verror(format, args);
        break;
    }
}

void plugin_log_begin(void)
{
    report_set_sink(sink);
}

/* nbdkit passes these on, and turns every other number into EINVAL, which a client would take
 * for its own mistake. */
static int wire_errno(int error)
{
    switch (error) {
    case EPERM:
    case EIO:
    case ENOMEM:
    case EINVAL:
    case ENOSPC:
    case EOVERFLOW:
    case ESHUTDOWN:
        return error;
    case EOPNOTSUPP: /* the same as ENOTSUP */
        return error;
    case EROFS:
    case EACCES:
        return EPERM;
    case EDQUOT:
    case EFBIG:
        return ENOSPC;
    default:
        return EIO;
    }
}

int plugin_result(int error)
{
    if (error >= 0)
        return 0;
    nbdkit_set_error(wire_errno(-error));
    return -1;
}
