/* fuzz-parameters: any parameters, as nbdkit hands them to the plugin: lines of KEY=VALUE.
 *
 * The configuration that is accepted keeps every bound that the manual states.  Sizes of
 * nbdjournal and nbdkit's parameters are parsed alike.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "size.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LONGEST 4096

/* ---- what nbdkit offers ---- */

static unsigned errors;

void nbdkit_error(const char *format, ...)
{
    char line[LONGEST + 1000];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    assert(strlen(line) > 0);
    errors++;
}

char *nbdkit_absolute_path(const char *path)
{
    char *absolute;

    return asprintf(&absolute, "/%s", path) < 0 ? NULL : absolute;
}

int64_t nbdkit_parse_size(const char *text)
{
    uint64_t bytes;

    return size_parse(text, &bytes) && bytes <= INT64_MAX ? (int64_t)bytes : -1;
}

int nbdkit_parse_uint64_t(const char *what, const char *text, uint64_t *number)
{
    char *end;

    (void)what;
    errno = 0;
    *number = strtoull(text, &end, 0);
    if (errno == 0 && end != text && *end == '\0')
        return 0;
    nbdkit_error("%s: no number", text);
    return -1;
}

/* ---- */

static void set(char *line)
{
    char *value = strchr(line, '=');
    unsigned before = errors;

    if (value == NULL)
        value = line + strlen(line);
    else
        *value++ = '\0';
    /* Who refuses says why, and who accepts says nothing. */
    assert((plugin_config_set(line, value) == 0) == (errors == before));
}

static void check(void)
{
    const struct engine_config *c = &plugin_config;

    assert((c->image_path != NULL) != (c->dir_path != NULL));
    assert(c->journal_size == 0 || c->journal_size >= FORMAT_JOURNAL_MIN);
    assert(c->bypass_bytes == 0 || c->bypass_bytes >= 4096);
    assert(c->commit_interval_s >= 0.01 && c->commit_interval_s <= 3600);
    assert(c->memory_bytes >= 1u << 20);
    assert(c->batch.min_us <= c->batch.max_us && c->batch.max_us <= 1000000);
    assert(batch_policy_name(0) != NULL && c->batch.policy != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct engine_config defaults = plugin_config;
    char *text = malloc(size + 1), *line, *rest;

    memcpy(text, data, size);
    text[size] = '\0';
    for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        set(line);
    if (plugin_config_complete() == 0)
        check();
    plugin_config_free();
    plugin_config = defaults;
    free(text);
    return 0;
}
