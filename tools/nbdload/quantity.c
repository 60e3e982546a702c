/* quantity: sizes and times as people write them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantity.h"

bool quantity_number(const char *text, double min, double max, double *value, char **end)
{
    if (*text != '.' && (*text < '0' || *text > '9'))
        return false;
    errno = 0;
    *value = strtod(text, end);
    return errno == 0 && *value >= min && *value <= max;
}

/* 4096, 4k, 1.5M, 2GiB */
bool quantity_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "kmgtp";
    double value;
    char *end;
    const char *unit;
    uint64_t factor = 1;

    if (!quantity_number(text, 0, 0x1p63, &value, &end))
        return false;
    if (*end != '\0' && (unit = strchr(units, *end | 0x20)) != NULL && *unit != '\0') {
        factor <<= 10 * (unit - units + 1);
        end++;
        if (strcmp(end, "iB") == 0)
            end += 2;
    }
    if (*end != '\0' || value * factor >= 0x1p63)
        return false;
    /* Exact for what is given as whole bytes. */
    *bytes = factor == 1 ? strtoull(text, NULL, 10) : (uint64_t)llround(value * factor);
    return true;
}

bool quantity_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e9}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    double value;
    char *end;

    if (!quantity_number(text, 0, 1e12, &value, &end))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) == 0 && value * units[i].ns < 0x1p62) {
            *ns = llround(value * units[i].ns);
            return true;
        }
    }
    return false;
}
