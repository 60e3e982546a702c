/* nbdjournal replay */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "drain.h"
#include "nbdjournal.h"
#include "report.h"
#include "size.h"
#include "survey.h"

struct replay_arguments {
    const char *journal;
    char **images;
    size_t image_count;
    uint64_t to_lsn;
    bool yes;
};

/* What --to would give up, counted while the journal is surveyed. */
struct given_up {
    uint64_t to_lsn;
    uint64_t records, payload_bytes;
};

enum { OPTION_TO = 256, OPTION_YES };

static const struct argp_option options[] = {
    {.name = "to",
     .key = OPTION_TO,
     .arg = "LSN",
     .doc = "Replay up to this record, as dump shows it, and give up those behind it"},
    {.name = "yes", .key = OPTION_YES, .doc = "Yes, data may be lost (it says how much first)"},
    {0}};

static void parse_lsn(struct argp_state *state, const char *argument, uint64_t *lsn)
{
    char *end;

    errno = 0;
    *lsn = strtoull(argument, &end, 10);
    if (errno != 0 || end == argument || *end != '\0' || argument[0] == '-')
        argp_error(state, "'%s' is no lsn: see nbdjournal dump", argument);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct replay_arguments *a = state->input;

    switch (key) {
    case OPTION_TO:
        parse_lsn(state, argument, &a->to_lsn);
        return 0;
    case OPTION_YES:
        a->yes = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->journal != NULL)
            return ARGP_ERR_UNKNOWN; /* the images come as ARGP_KEY_ARGS */
        a->journal = argument;
        return 0;
    case ARGP_KEY_ARGS:
        a->images = state->argv + state->next;
        a->image_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        if (a->journal == NULL)
            argp_error(state, "which JOURNAL is to be replayed?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int count_given_up(void *opaque, const struct record *record)
{
    struct given_up *g = opaque;

    if (record->lsn <= g->to_lsn || record->kind == RECORD_PAD || record->kind == RECORD_EPOCH)
        return 0;
    g->records++;
    g->payload_bytes += record->payload_bytes;
    return 0;
}

/* Does --to make sense?  Says what it costs. */
static enum tool_exit consider_to(const struct survey *s, const struct given_up *g, bool yes)
{
    const char *name = s->jf.storage->name, *verb = yes ? "are" : "would be";
    bool damaged = s->state == JOURNAL_DAMAGED;
    char text[SURVEY_TEXT_BYTES];

    if (g->to_lsn == UINT64_MAX || (damaged && g->to_lsn > s->result.cut.lsn))
        return damaged ? TOOL_DAMAGED : TOOL_OK;
    if (g->to_lsn < s->jf.sb.tail.lsn) {
        report_error("%s: it begins behind lsn %" PRIu64 ": what was before that is in the "
                     "image already and can't be taken back",
                     name, s->jf.sb.tail.lsn);
        return TOOL_FAILED;
    }
    if (g->records == 0 && !damaged)
        return TOOL_OK;
    printf("%s behind lsn %" PRIu64 "%s %s given up: they can't be brought back\n",
           survey_waiting_text(g->records, g->payload_bytes, text), g->to_lsn,
           damaged ? ", and the damaged ones and all behind them," : "", verb);
    return nbdjournal_confirm(yes);
}

static enum tool_exit consider_staging(const struct survey *s, bool yes)
{
    if (s->staging != STAGING_MISSING)
        return TOOL_OK;
    printf("the newest records of %s were in shared memory (/dev/shm), and they are not there: "
           "writes that were answered and not flushed are lost\n",
           s->jf.storage->name);
    return nbdjournal_confirm(yes);
}

static enum tool_exit replay(struct survey *s, const struct replay_arguments *a)
{
    struct drain drain = {0};
    char records[SURVEY_TEXT_BYTES];
    bool was_clean = s->state == JOURNAL_CLEAN;
    enum tool_exit result = drain_open(&drain, s, a->images, a->image_count);

    if (result == TOOL_OK)
        result = drain_run(&drain, a->to_lsn);
    if (result == TOOL_OK && was_clean)
        printf("%s: clean: nothing waits\n", s->jf.storage->name);
    else if (result == TOOL_OK)
        printf("%s: replayed %s; it is clean now, and the images alone are complete\n",
               s->jf.storage->name,
               survey_waiting_text(drain.records, drain.payload_bytes, records));
    drain_close(&drain);
    return result;
}

enum tool_exit replay_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "JOURNAL [IMAGE...]",
        .doc = "Brings what waits in a journal home to its images.  They are found where they "
               "were last, or given as IMAGE.  It may be interrupted and repeated."};
    struct replay_arguments a = {.to_lsn = UINT64_MAX};
    struct given_up given_up;
    struct survey s = {0};
    enum tool_exit result;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    given_up = (struct given_up){.to_lsn = a.to_lsn};
    s.visit = count_given_up;
    s.visit_opaque = &given_up;
    s.with_map = true;
    result = survey_open(&s, a.journal, ATTACH_REPAIR);
    if (result == TOOL_OK)
        result = survey_scan(&s);
    if (result == TOOL_OK)
        result = consider_to(&s, &given_up, a.yes);
    if (result == TOOL_OK)
        result = consider_staging(&s, a.yes);
    if (result == TOOL_OK)
        result = replay(&s, &a);
    survey_close(&s);
    return result;
}
