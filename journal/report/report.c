/* report: see report.h. */
#include <stddef.h>

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
