/* nbdjournal: looks at, checks and mends the journals of `nbdkit journal`. */
#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nbdjournal.h"
#include "progress.h"
#include "report.h"

static const struct command {
    const char *name;
    enum tool_exit (*run)(int argc, char **argv);
} commands[] = {
    {"create", create_command}, {"info", info_command},     {"check", check_command},
    {"dump", dump_command},     {"replay", replay_command}, {"resize", resize_command},
    {"adopt", adopt_command},   {"forget", forget_command}, {"stats", stats_command},
    {"top", top_command},
};

static const char commands_text[] =
    "Looks at, checks and mends the journals of `nbdkit journal`.\v"
    "Commands:\n"
    "  create JOURNAL --size SIZE     makes a new journal\n"
    "  info   JOURNAL                 says what it is, what waits in it, and what to do next\n"
    "  check  JOURNAL [IMAGE...]      verifies every checksum\n"
    "  dump   JOURNAL                 lists the records\n"
    "  replay JOURNAL [IMAGE...]      brings what waits home to the images\n"
    "  resize JOURNAL --size SIZE     gives it another size\n"
    "  adopt  JOURNAL IMAGE           the image is this one after all\n"
    "  forget JOURNAL IMAGE           drops what waits for an image that is gone\n"
    "  stats  SOCKET                  says what a running server does\n"
    "  top    SOCKET                  shows it, again and again\n"
    "\n"
    "`nbdjournal COMMAND --help' says more about a command, nbdjournal(1) everything.\n"
    "\n"
    "Exit status: 0 done, or clean; 1 needs replay, or --yes; 2 damaged; 3 usage or I/O.\n";

const char *argp_program_version = "nbdjournal " PACKAGE_VERSION;

/* The library's words; results go to standard output and come from the commands. */
static void print_report(enum report_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void print_report(enum report_level level, const char *format, va_list args)
{
    if (level == REPORT_DEBUG)
        return;
    progress_clear();
    flockfile(stderr);
    fputs(level == REPORT_ERROR ? "nbdjournal: error: " : "nbdjournal: ", stderr);
    vfprintf(stderr, format, args);
    putc('\n', stderr);
    funlockfile(stderr);
}

void nbdjournal_be_quiet(bool quiet)
{
    report_set_sink(quiet ? NULL : print_report);
}

enum tool_exit nbdjournal_confirm(bool yes)
{
    if (yes)
        return TOOL_OK;
    printf("nothing was changed: add --yes to do it\n");
    return TOOL_OPEN;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* What was printed must have arrived: a full disk behind `dump >file` is no success. */
static enum tool_exit finish_output(enum tool_exit result)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return result;
    report_error("standard output: %s", errno != 0 ? report_reason(errno) : "write failed");
    return TOOL_FAILED;
}

/* The command sees argv[0] = "nbdjournal NAME", which argp puts before its words. */
static enum tool_exit run_command(const struct command *command, int argc, char **argv)
{
    char name[32];

    snprintf(name, sizeof(name), "nbdjournal %s", command->name);
    argv[0] = name;
    return finish_output(command->run(argc, argv));
}

static enum tool_exit help(int argc, char **argv, const struct argp *argp)
{
    const struct command *command;
    char option[] = "--help";
    char *arguments[] = {argv[0], option, NULL};

    if (argc < 2) {
        argp_help(argp, stdout, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK, argv[0]);
        return finish_output(TOOL_OK);
    }
    command = find_command(argv[1]);
    if (command == NULL) {
        report_error("there is no command '%s': see nbdjournal --help", argv[1]);
        return TOOL_FAILED;
    }
    return run_command(command, 2, arguments);
}

struct rest {
    int argc;
    char **argv;
};

/* Options before the command are ours; the command and all behind it are not looked at. */
static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct rest *rest = state->input;

    (void)argument;
    switch (key) {
    case ARGP_KEY_ARG:
        rest->argc = state->argc - state->next + 1;
        rest->argv = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .parser = parse, .args_doc = "COMMAND [ARGUMENT...]", .doc = commands_text};
    static char name[] = "nbdjournal";
    const struct command *command;
    struct rest rest = {0};

    report_set_sink(print_report);
    argp_err_exit_status = TOOL_FAILED;
    argv[0] = name;
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &rest) != 0)
        return TOOL_FAILED;
    if (strcmp(rest.argv[0], "help") == 0) {
        rest.argv[0] = name;
        return help(rest.argc, rest.argv, &argp);
    }
    command = find_command(rest.argv[0]);
    if (command == NULL) {
        report_error("there is no command '%s': see nbdjournal --help", rest.argv[0]);
        return TOOL_FAILED;
    }
    return run_command(command, rest.argc, rest.argv);
}
