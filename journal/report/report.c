/* report: see report.h. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

static report_sink *sink; /* set before threads exist, constant afterwards */

void report_set_sink(report_sink *new_sink)
{
    sink = new_sink;
}

#define REPORT_BODY(level)     \
    va_list args;              \
    if (sink == NULL)          \
        return;                \
    va_start(args, format);    \
    sink(level, format, args); \
    va_end(args)

void report_debug(const char *format, ...)
{
    REPORT_BODY(REPORT_DEBUG);
}

void report_info(const char *format, ...)
{
    REPORT_BODY(REPORT_INFO);
}

void report_error(const char *format, ...)
{
    REPORT_BODY(REPORT_ERROR);
}

static const char *way_out(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return "give it to this user (chown, chmod), or run this as its owner";
    case ENOENT:
    case ENOTDIR:
        return "check the path";
    case ELOOP:
        return "check where the symbolic links lead";
    case ENAMETOOLONG:
        return "choose a shorter path";
    case EROFS:
        return "mount its file system for writing, or choose another place";
    case ENOSPC:
    case EDQUOT:
        return "make room, or choose another place";
    case EMFILE:
    case ENFILE:
        return "allow more open files (ulimit -n)";
    case EAGAIN:
        return "too many threads or processes: allow more (ulimit -u, TasksMax=)";
    case ENOMEM:
        return "free some memory, and try again";
    case EIO:
        return "its disk fails, see dmesg: copy it away before anything else";
    case ENXIO:
    case ENODEV:
        return "nothing is attached to this device: attach it, or check the path";
    case EBUSY:
    case ETXTBSY:
        return "somebody else uses it: stop that first";
    default:
        return NULL;
    }
}

const char *report_reason(int error)
{
    static _Thread_local char text[256];
    const char *out = way_out(abs(error));

    snprintf(text, sizeof(text), "%s%s%s", strerror(abs(error)), out != NULL ? "; " : "",
             out != NULL ? out : "");
    return text;
}
