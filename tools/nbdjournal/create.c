/* nbdjournal create */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "staging.h"
#include "attach.h"
#include "nbdjournal.h"
#include "report.h"
#include "size.h"

struct create_arguments {
    const char *journal;
    uint64_t size; /* 0: not given */
    bool force;
};

static const struct argp_option options[] = {
    {.name = "size",
     .key = 's',
     .arg = "SIZE",
     .doc = "Size of the journal, for example 64M or 1G; a block device is used whole "
            "without it"},
    {.name = "force",
     .key = 'f',
     .doc = "Overwrite a block device that holds something else (never a file)"},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct create_arguments *a = state->input;

    switch (key) {
    case 's':
        if (!size_parse(argument, &a->size) || a->size == 0)
            argp_error(state, "'%s' is no size: write for example 64M or 1G", argument);
        return 0;
    case 'f':
        a->force = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->journal != NULL)
            argp_error(state, "one journal at a time");
        a->journal = argument;
        return 0;
    case ARGP_KEY_END:
        if (a->journal == NULL)
            argp_error(state, "which JOURNAL is to be created?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool is_block_device(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

bool create_size_allowed(uint64_t size)
{
    char text[SIZE_TEXT_BYTES];

    if (size < FORMAT_JOURNAL_MIN) {
        report_error("--size: a journal has at least %s, since an eighth of it is the largest "
                     "request that is there whole or not at all after a crash",
                     size_text(FORMAT_JOURNAL_MIN, text));
        return false;
    }
    if (size > FORMAT_JOURNAL_MAX) {
        report_error("--size: a journal has at most %s", size_text(FORMAT_JOURNAL_MAX, text));
        return false;
    }
    return true;
}

static bool size_fits(const struct create_arguments *a)
{
    if (a->size != 0)
        return create_size_allowed(a->size);
    if (is_block_device(a->journal))
        return true;
    report_error("%s: how large? Add --size, for example --size 64M", a->journal);
    return false;
}

static enum tool_exit print_created(const char *path)
{
    struct journal_file jf;
    char uuid[37], size[SIZE_TEXT_BYTES], atomic[SIZE_TEXT_BYTES];
    int r = journal_open(&jf, path, ATTACH_INSPECT);

    if (r < 0)
        return TOOL_FAILED;
    format_uuid_text(jf.sb.uuid, uuid);
    printf("created %s: %s, uuid %s; requests up to %s are atomic\n", path,
           size_text(jf.sb.ring_start + jf.sb.ring_bytes, size), uuid,
           size_text(staging_atomic_max(jf.sb.ring_bytes), atomic));
    journal_close(&jf);
    return TOOL_OK;
}

enum tool_exit create_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOURNAL",
        .doc = "Makes a new journal: a file, which must not exist yet, or on a block device."};
    struct create_arguments a = {0};

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0 || !size_fits(&a))
        return TOOL_FAILED;
    if (journal_create_file(a.journal, a.size, a.force) < 0)
        return TOOL_FAILED;
    return print_created(a.journal);
}
