/* size: see size.h. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "size.h"

/* Each is 1024 times the one before. */
static const char units[] = "KMGTPE";

bool size_parse(const char *text, uint64_t *bytes)
{
    unsigned shift = 0;
    const char *unit;
    uint64_t number;
    char *end;

    if (!isdigit((unsigned char)text[0])) /* strtoull would take "-1" */
        return false;
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (*end != '\0' && (unit = strchr(units, toupper((unsigned char)*end))) != NULL) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
        if (strcasecmp(end, "iB") == 0)
            end += 2;
    }
    if (strcasecmp(end, "B") == 0)
        end++;
    if (*end != '\0' || number > (uint64_t)INT64_MAX >> shift)
        return false;
    *bytes = number << shift;
    return true;
}

const char *size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
    unsigned unit = 0, shift = 10;
    uint64_t whole, tenth;

    if (bytes < 1024) {
        snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
        return text;
    }
    while (units[unit + 1] != '\0' && bytes >> shift >= 1024) {
        unit++;
        shift += 10;
    }
    whole = bytes >> shift;
    tenth = ((bytes >> (shift - 10)) & 1023) * 10 / 1024;
    if (tenth == 0)
        snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " %ciB", whole, units[unit]);
    else
        snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 " %ciB", whole, tenth,
                 units[unit]);
    return text;
}

const char *size_text_exact(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
    size_t count;

    size_text(bytes, text);
    if (bytes < 1024)
        return text;
    count = strlen(text);
    snprintf(text + count, SIZE_TEXT_BYTES - count, " (%" PRIu64 " bytes)", bytes);
    return text;
}
