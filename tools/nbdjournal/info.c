/* nbdjournal info */
#include <argp.h>
#include <stdbool.h>

#include "describe.h"
#include "nbdjournal.h"
#include "survey.h"

struct info_arguments {
    const char *journal;
    bool json;
};

static const struct argp_option options[] = {
    {.name = "json", .key = 'j', .doc = "For programs: one JSON object"}, {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct info_arguments *a = state->input;

    switch (key) {
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->journal != NULL)
            argp_error(state, "one journal at a time");
        a->journal = argument;
        return 0;
    case ARGP_KEY_END:
        if (a->journal == NULL)
            argp_error(state, "which JOURNAL?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

enum tool_exit info_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOURNAL",
        .doc = "Says what a journal is, for which images, what waits in it, and what to do "
               "next.  Nothing is changed."};
    struct info_arguments a = {0};
    struct survey s = {0};
    enum tool_exit result;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    result = survey_open(&s, a.journal, ATTACH_INSPECT);
    if (result == TOOL_OK)
        result = survey_scan(&s);
    if (result == TOOL_OK) {
        if (a.json)
            result = describe_json_print(describe_json(&s), JSON_INDENT(2));
        else
            describe_print(&s);
        if (result == TOOL_OK && s.state == JOURNAL_DAMAGED)
            result = TOOL_DAMAGED;
    }
    survey_close(&s);
    return result;
}
