/* duration: see duration.h. */
#include <inttypes.h>
#include <stdio.h>

#include "duration.h"

static const struct unit {
    const char *name;
    uint64_t ns, upto; /* used below this many of them */
} units[] = {
    {"ns", 1, 1000},
    {"us", 1000, 1000},
    {"ms", 1000000, 1000},
    {"s", 1000000000, 120},
    {"min", UINT64_C(60000000000), 120},
    {"h", UINT64_C(3600000000000), 48},
    {"days", UINT64_C(86400000000000), UINT64_MAX},
};

const char *duration_text(uint64_t ns, char text[DURATION_TEXT_BYTES])
{
    const struct unit *u = units;
    double value;

    if (ns == 0)
        return "0";
    while (ns / u->ns >= u->upto)
        u++;
    value = (double)ns / (double)u->ns;
    snprintf(text, DURATION_TEXT_BYTES, "%.*f %s",
             u->ns == 1 || u->ns > units[3].ns || value >= 99.95 ? 0
             : value >= 9.995                                    ? 1
                                                                 : 2,
             value, u->name);
    return text;
}
