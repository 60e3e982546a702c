/* verify_main: the command "nbdload verify", its options, and how a verification is told. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exit_code.h"
#include "quantity.h"
#include "verify.h"

static const char *const promise_name[PROMISES] = {
    [P0] = "P0", [P1] = "P1", [P2] = "P2", [P3] = "P3", [P7] = "P7",
};

static const char *const order_name[] = {
    [ORDER_NONE] = "none",
    [ORDER_DISK] = "disk",
    [ORDER_ALL] = "all",
};

/* ---- what may be asked of the server ---- */

enum { OPTION_POWER = 512, OPTION_ATOMIC, OPTION_ORDER, OPTION_JSON, OPTION_STALL };

static const struct argp_option check_options[] = {
    {0, 0, 0, 0, "What the server must have kept, when a ledger is verified:", 0},
    {"power", OPTION_POWER, 0, 0,
     "What is expected after a power cut: only flushed writes must be there, and not those "
     "that were just "
     "answered",
     0},
    {"atomic", OPTION_ATOMIC, "SIZE", 0,
     "Requests smaller than this must be there whole or not at all, and in order (default 64k, "
     "0: none)",
     0},
    {"order", OPTION_ORDER, "SCOPE", 0,
     "With --power: after a lost write nothing newer may be there, on the same \"disk\" "
     "(default), on "
     "\"all\" disks, or \"none\": not checked",
     0},
    {0},
};

static error_t check_parse(int key, char *arg, struct argp_state *state)
{
    struct verify_options *o = state->input;

    switch (key) {
    case OPTION_POWER:
        o->power = true;
        return 0;
    case OPTION_ATOMIC:
        if (!quantity_size(arg, &o->atomic))
            argp_error(state, "--atomic: '%s' is no size", arg);
        return 0;
    case OPTION_ORDER:
        for (int i = 0; i < 3; i++) {
            if (strcmp(arg, order_name[i]) == 0) {
                o->order = i;
                return 0;
            }
        }
        argp_error(state, "--order: '%s' is none of none, disk, all", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp verify_argp = {.options = check_options, .parser = check_parse};

void verify_options_init(struct verify_options *options)
{
    *options = (struct verify_options){
        .atomic = 64 << 10,
        .order = ORDER_DISK,
        .stall_ns = 120000000000u,
    };
}

/* ---- the telling ---- */

#define VIOLATIONS_SHOWN 10

void verification_print(const struct verification *result, const struct verify_options *options,
                        char **uris)
{
    size_t shown =
        result->violation_count < VIOLATIONS_SHOWN ? result->violation_count : VIOLATIONS_SHOWN;

    if (result->run_broken[0] != '\0')
        fprintf(stderr, "nbdload: the run had found: %s\n", result->run_broken);
    for (size_t i = 0; i < shown; i++) {
        const struct violation *v = &result->violations[i];

        fprintf(stderr,
                "nbdload: disk %" PRIu32 " (%s), sector at %" PRIu64 ": %s is broken: %s\n"
                "nbdload:   expected: write %" PRIu64 " or a newer one, up to %" PRIu64 "\n"
                "nbdload:   found: %s\n",
                v->disk, uris[v->disk], v->offset, promise_name[v->promise], v->what, v->from,
                v->to, v->found);
    }
    printf("verified for %s: %" PRIu64 " sectors",
           options->power ? "a power cut" : "a killed server", result->sectors);
    if (options->power)
        printf(", %" PRIu64 " lost what was never flushed", result->lost);
    printf(", %" PRIu64 " hold what was never answered; broken:", result->unanswered);
    if (verification_good(result))
        printf(" nothing");
    for (int p = 0; p < PROMISES; p++) {
        if (result->broken[p] > 0)
            printf(" %s %" PRIu64, promise_name[p], result->broken[p]);
    }
    putchar('\n');
}

json_t *verification_json(const struct verification *result,
                          const struct verify_options *options)
{
    json_t *broken = json_object(), *list = json_array();

    for (int p = 0; p < PROMISES; p++)
        json_object_set_new(broken, promise_name[p], json_integer(result->broken[p]));
    for (size_t i = 0; i < result->violation_count && i < VIOLATIONS_SHOWN; i++) {
        const struct violation *v = &result->violations[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:I, s:s, s:I, s:I, s:s}", "promise",
                                        promise_name[v->promise], "disk", v->disk, "offset",
                                        (json_int_t)v->offset, "what", v->what, "expected_from",
                                        (json_int_t)v->from, "expected_to", (json_int_t)v->to,
                                        "found", v->found));
    }
    return json_pack("{s:s, s:b, s:I, s:I, s:I, s:o, s:o, s:s}", "after",
                     options->power ? "power cut" : "kill", "good", verification_good(result),
                     "sectors", (json_int_t)result->sectors, "lost_unflushed",
                     (json_int_t)result->lost, "present_unanswered",
                     (json_int_t)result->unanswered, "broken", broken, "violations", list,
                     "run_found", result->run_broken);
}

/* ---- the command ---- */

struct command {
    struct verify_options check;
    const char *state;
    char **uris;
    size_t uri_count;
    bool json;
};

static const struct argp_option command_options[] = {
    {"json", OPTION_JSON, 0, 0, "The result as JSON", -1},
    {"quiet", 'q', 0, 0, "No progress line on the terminal", -1},
    {"stall", OPTION_STALL, "TIME", 0, "Give up after so long without an answer (default 2m)",
     -1},
    {0},
};

static error_t command_parse(int key, char *arg, struct argp_state *state)
{
    struct command *c = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->check;
        return 0;
    case OPTION_JSON:
        c->json = true;
        return 0;
    case 'q':
        c->check.quiet = true;
        return 0;
    case OPTION_STALL:
        if (!quantity_time(arg, &c->check.stall_ns))
            argp_error(state, "--stall: '%s' is no time", arg);
        return 0;
    case ARGP_KEY_ARGS:
        if (state->argc - state->next < 2)
            argp_usage(state);
        c->state = state->argv[state->next];
        c->uris = state->argv + state->next + 1;
        c->uri_count = state->argc - state->next - 1;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Checks that servers hold what the ledger of a load (--verify STATE) says they owe."
    "\v"
    "The URIs are given in the order of the run.  When nothing is broken the ledger takes what "
    "was "
    "found as the state from which the next run goes on.\n"
    "\n"
    "Exit codes: 0 nothing is broken, 1 a promise is broken, 2 usage, 3 reads failed, 4 the "
    "server "
    "could not be reached.";

int verify_main(int argc, char **argv)
{
    static const struct argp_child children[] = {{&verify_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = command_options,
        .parser = command_parse,
        .args_doc = "STATE URI...",
        .doc = doc,
        .children = children,
    };
    struct verification result = {0};
    struct command c = {0};
    struct ledger ledger;
    int status;

    verify_options_init(&c.check);
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    status = verify_open(&ledger, c.state, c.uris, c.uri_count, false, 0, 0, &c.check);
    if (status != EXIT_DONE)
        return status;
    status = verify_disks(&ledger, c.uris, &c.check, &result);
    if (status == EXIT_DONE || status == EXIT_BROKEN) {
        if (c.json) {
            json_t *json = verification_json(&result, &c.check);
            json_dumpf(json, stdout, JSON_INDENT(2));
            putchar('\n');
            json_decref(json);
        } else {
            verification_print(&result, &c.check, c.uris);
        }
    }
    verification_free(&result);
    ledger_close(&ledger);
    return status;
}
