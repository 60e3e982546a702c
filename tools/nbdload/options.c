/* options: the command line of a load. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exit_code.h"
#include "options.h"
#include "quantity.h"
#include "trace.h"

/* A log of many connections at once may say more than one client had. */
#define TRACE_IN_FLIGHT_MAX 256

const char *const pattern_name[PATTERNS] = {
    [PATTERN_FLUSH] = "flush",
    [PATTERN_FUA] = "fua",
    [PATTERN_ASYNC] = "async",
    [PATTERN_MIXED] = "mixed",
    [PATTERN_READ] = "read",
    [PATTERN_SEQ] = "seq",
    [PATTERN_FINAL_FLUSH] = "final-flush",
    [PATTERN_FLUSH_ONLY] = "flush-only",
    [PATTERN_TRACE] = "trace",
};

const char *argp_program_version = "nbdload " PACKAGE_VERSION;
const char *argp_program_bug_address;
error_t argp_err_exit_status = EXIT_USAGE;

enum {
    OPTION_READ_PERCENT = 256,
    OPTION_FLUSH_EVERY,
    OPTION_ALIGN,
    OPTION_RANGE,
    OPTION_SEED,
    OPTION_THINK,
    OPTION_POISSON,
    OPTION_COUNT,
    OPTION_WARMUP,
    OPTION_STALL,
    OPTION_JSON,
    OPTION_VERIFY,
    OPTION_REPORT,
    OPTION_CONTROL,
    OPTIONS_OF_CHILDREN = 512,
};

static const struct argp_option argp_options[] = {
    {0, 0, 0, 0, "Who sends:", 1},
    {"clients", 'c', "N", 0, "Clients, shared out over the URIs in turn (default: one each)",
     0},
    {"connections", 'C', "N", 0, "Connections of each client (default 1)", 0},
    {"in-flight", 'i', "N", 0,
     "Operations at a time on each connection (default 1, trace: as there)", 0},
    {"think", OPTION_THINK, "TIME", 0, "Pause between an operation and the next (default 0)",
     0},
    {"rate", 'r', "R", 0,
     "Open loop: operations per second of all clients together; latencies count from when an "
     "operation was due, so that a stall is not hidden",
     0},
    {"poisson", OPTION_POISSON, 0, 0,
     "Pauses of --think and distances of --rate are exponentially distributed around the mean",
     0},

    {0, 0, 0, 0, "What is sent:", 2},
    {"pattern", 'p', "PATTERN", 0, "See below (default flush)", 0},
    {"read-percent", OPTION_READ_PERCENT, "P", 0, "Of mixed: share of reads (default 70)", 0},
    {"flush-every", OPTION_FLUSH_EVERY, "N", 0,
     "Of async, mixed and seq: a flush after so many writes of a client (default 64, seq: 0; "
     "0: "
     "at the end)",
     0},
    {"block-size", 'b', "SIZE[:WEIGHT],...", 0,
     "Bytes of a request (default 4k, seq: 1M), or several sizes and how often each is taken",
     0},
    {"align", OPTION_ALIGN, "SIZE", 0, "Offsets are multiples of it (default: the block size)",
     0},
    {"range", OPTION_RANGE, "[START-]END", 0, "Only this part of the export (default: all)", 0},
    {"seed", OPTION_SEED, "N", 0, "Of random offsets and sizes (default 1)", 0},

    {0, 0, 0, 0, "How long:", 3},
    {"duration", 'd', "TIME", 0, "Default 10s, unless --count is given", 0},
    {"count", OPTION_COUNT, "N", 0, "Operations of each client", 0},
    {"warmup", OPTION_WARMUP, "TIME", 0, "Before the measurement, beside the duration", 0},
    {"stall", OPTION_STALL, "TIME", 0,
     "Give up when nothing was answered for so long (default 2m, 0: never)", 0},

    {0, 0, 0, 0, "Results:", 4},
    {"json", OPTION_JSON, 0, 0, "As JSON instead of a table", 0},
    {"report", OPTION_REPORT, "FILE", 0, "A page with plots as well (HTML)", 0},
    {"control", OPTION_CONTROL, "SOCKET", 0,
     "Ask the server, an nbdkit journal with control=SOCKET, how many flushes its commits "
     "answer",
     0},
    {"quiet", 'q', 0, 0, "No progress line on the terminal", 0},
    {0, 0, 0, 0, "Verification:", 5},
    {"verify", OPTION_VERIFY, "STATE", 0,
     "Stamp what is written, check what is read, and keep a ledger in the file STATE of what "
     "was answered "
     "and flushed, for nbdload verify.  If STATE is there, the server is verified first, and "
     "the run "
     "goes on from it",
     0},
    {0, 0, 0, 0, 0, -1},
    {0},
};

#define FLUSH_EVERY_MAX 1000000000u
#define FLUSH_EVERY_DEFAULT UINT_MAX /* not given: of the pattern */

static const char doc[] =
    "Puts a load on NBD servers and measures what it gets."
    "\v"
    "Patterns, and what one operation is:\n"
    "  flush        a write, then a flush\n"
    "  fua          a write with FUA\n"
    "  async        a write; a flush after every --flush-every of them\n"
    "  mixed        a read or a write; flushes as in async\n"
    "  read         a read\n"
    "  seq          a sequential write, each client in a part of its own; flushes as in async\n"
    "  final-flush  a write\n"
    "  flush-only   a flush with nothing new\n"
    "  trace FILE   a request of this log, which nbd-server or nbdjournal dump --datalog "
    "wrote; each "
    "client sends all of them, in the order and with as many in flight as there\n"
    "What was written and not flushed is flushed at the end, by all connections at once.\n"
    "\n"
    "SIZE is in bytes, or with k, M, G, T behind it.  TIME is in seconds, or with us, ms, s, "
    "m, h.\n"
    "\n"
    "Exit codes: 0 all was answered without error, 1 a promise is broken, 2 usage, 3 requests "
    "failed, 4 the server "
    "could "
    "not be reached, went away or did not answer, 130 interrupted.";

/* ---- words to numbers ---- */

static bool parse_uint64(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *value >= min && *value <= max;
}

/* START-END or END. */
static bool parse_range(char *text, uint64_t *start, uint64_t *end)
{
    char *dash = strchr(text, '-');

    *start = 0;
    if (dash != NULL) {
        *dash = '\0';
        if (!quantity_size(text, start))
            return false;
        text = dash + 1;
    }
    return quantity_size(text, end) && *end > *start;
}

static bool parse_sizes(char *text, struct options *o)
{
    char *rest = NULL;

    o->size_count = 0;
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        uint64_t bytes, weight = 1;
        char *colon = strchr(word, ':');

        if (o->size_count == SIZE_CHOICES_MAX)
            return false;
        if (colon != NULL) {
            *colon = '\0';
            if (!parse_uint64(colon + 1, 1, 1000000, &weight))
                return false;
        }
        if (!quantity_size(word, &bytes) || bytes < 1 || bytes > SIZE_MAX_BYTES)
            return false;
        o->sizes[o->size_count++] = (struct size_choice){bytes, weight};
    }
    return o->size_count > 0;
}

static bool parse_pattern(const char *text, struct options *o)
{
    for (int i = 0; i < PATTERNS; i++) {
        if (strcmp(text, pattern_name[i]) == 0) {
            o->pattern = i;
            return true;
        }
    }
    return false;
}

static bool parse_unsigned(const char *text, unsigned min, unsigned max, unsigned *value)
{
    uint64_t wide;

    if (!parse_uint64(text, min, max, &wide))
        return false;
    *value = wide;
    return true;
}

/* ---- the options ---- */

/* False: the argument is no good. */
static bool option_set(struct options *o, int key, char *arg)
{
    char *end;

    switch (key) {
    case 'c':
        return parse_unsigned(arg, 1, 100000, &o->clients);
    case 'C':
        return parse_unsigned(arg, 1, 10000, &o->connections);
    case 'i':
        return parse_unsigned(arg, 1, 10000, &o->in_flight);
    case OPTION_THINK:
        return quantity_time(arg, &o->think_ns);
    case 'r':
        return quantity_number(arg, 1e-3, 1e9, &o->rate, &end) && *end == '\0';
    case OPTION_POISSON:
        o->poisson = true;
        return true;
    case 'p':
        return parse_pattern(arg, o);
    case OPTION_READ_PERCENT:
        return parse_unsigned(arg, 0, 100, &o->read_percent);
    case OPTION_FLUSH_EVERY:
        return parse_unsigned(arg, 0, FLUSH_EVERY_MAX, &o->flush_every);
    case 'b':
        return parse_sizes(arg, o);
    case OPTION_ALIGN:
        return quantity_size(arg, &o->align) && o->align > 0;
    case OPTION_RANGE:
        return parse_range(arg, &o->range_start, &o->range_end);
    case OPTION_SEED:
        return parse_uint64(arg, 0, UINT64_MAX, &o->seed);
    case 'd':
        return quantity_time(arg, &o->duration_ns) && o->duration_ns > 0;
    case OPTION_COUNT:
        return parse_uint64(arg, 1, UINT64_MAX, &o->count);
    case OPTION_WARMUP:
        return quantity_time(arg, &o->warmup_ns);
    case OPTION_STALL:
        return quantity_time(arg, &o->stall_ns);
    case OPTION_JSON:
        o->json = true;
        return true;
    case OPTION_REPORT:
        o->report = arg;
        return true;
    case OPTION_CONTROL:
        o->control = arg;
        return true;
    case OPTION_VERIFY:
        o->ledger = arg;
        return true;
    case 'q':
        o->quiet = true;
        return true;
    default:
        return false;
    }
}

static const char *option_name(int key)
{
    for (const struct argp_option *option = argp_options; option->group != -1; option++) {
        if (option->key == key && option->name != NULL)
            return option->name;
    }
    return "?";
}

/* A ledger knows whole sectors. */
static void options_finish_verify(struct options *o, struct argp_state *state)
{
    for (size_t i = 0; i < o->size_count; i++) {
        if (o->sizes[i].bytes % SECTOR != 0)
            argp_error(state, "with --verify block sizes are multiples of %u", SECTOR);
    }
    if (o->align % SECTOR != 0 || o->range_start % SECTOR != 0 || o->range_end % SECTOR != 0)
        argp_error(state, "with --verify alignment and range are multiples of %u", SECTOR);
    o->check.stall_ns = o->stall_ns;
    o->check.quiet = o->quiet;
}

/* What depends on several of them. */
static void options_finish(struct options *o, struct argp_state *state)
{
    if (o->uri_count == 0)
        argp_error(state, "no URI is given: say for example nbd://localhost");
    if (o->clients == 0)
        o->clients = o->uri_count;
    if (o->clients < o->uri_count)
        argp_error(state, "%zu URIs need at least as many clients", o->uri_count);
    if (o->in_flight == 0 && o->pattern != PATTERN_TRACE)
        o->in_flight = 1;
    if ((uint64_t)o->clients * o->connections * o->in_flight > 100000)
        argp_error(state, "more than 100000 requests in flight");
    if (o->flush_every == FLUSH_EVERY_DEFAULT)
        o->flush_every = o->pattern == PATTERN_SEQ ? 0 : 64;
    if (o->size_count == 0)
        o->sizes[o->size_count++] =
            (struct size_choice){o->pattern == PATTERN_SEQ ? 1u << 20 : 4096, 1};
    for (size_t i = 0; i < o->size_count; i++) {
        if (o->sizes[i].bytes > o->size_max)
            o->size_max = o->sizes[i].bytes;
    }
    if (o->pattern == PATTERN_TRACE && (o->rate > 0 || o->think_ns > 0))
        argp_error(state, "a trace is neither rated nor does it think");
    if (o->duration_ns == 0 && o->count == 0 && o->pattern != PATTERN_TRACE)
        o->duration_ns = 10000000000u;
    if (o->ledger != NULL)
        options_finish_verify(o, state);
    if (o->rate > 0 && o->think_ns > 0)
        argp_error(state, "--think is for closed loops, --rate is an open one");
    if (o->poisson && o->rate == 0 && o->think_ns == 0)
        argp_error(state, "--poisson needs --think or --rate");
}

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case ARGP_KEY_ARGS:
        o->uris = state->argv + state->next;
        o->uri_count = state->argc - state->next;
        return 0;
    case ARGP_KEY_ARG:
        return ARGP_ERR_UNKNOWN; /* all of them at once, please */
    case ARGP_KEY_END:
        options_finish(o, state);
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->check;
        return 0;
    case ARGP_KEY_NO_ARGS:
    case ARGP_KEY_SUCCESS:
    case ARGP_KEY_ERROR:
    case ARGP_KEY_FINI:
        return 0;
    }
    if (key >= OPTIONS_OF_CHILDREN)
        return ARGP_ERR_UNKNOWN;
    if (key == 'p' && strcmp(arg, "trace") == 0) { /* the only one with a word more */
        if (state->next >= state->argc)
            argp_error(state, "--pattern trace needs a file");
        o->trace = state->argv[state->next++];
    }
    if (!option_set(o, key, arg))
        argp_error(state, "--%s: '%s' makes no sense there", option_name(key), arg);
    return 0;
}

void options_fit_trace(struct options *o, const struct trace *trace)
{
    if (trace->length_max > o->size_max)
        o->size_max = trace->length_max;
    if (o->in_flight == 0)
        o->in_flight =
            trace->in_flight < TRACE_IN_FLIGHT_MAX ? trace->in_flight : TRACE_IN_FLIGHT_MAX;
    if (o->ledger != NULL && !trace->aligned) {
        fprintf(stderr,
                "nbdload: trace %s: its requests are not all whole sectors, and can't be "
                "verified\n",
                o->trace);
        exit(EXIT_USAGE);
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp_child children[] = {{&verify_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = argp_options,
        .parser = option_parse,
        .args_doc = "URI...\nverify [OPTION...] STATE URI...",
        .doc = doc,
        .children = children,
    };

    *options = (struct options){
        .connections = 1,
        .read_percent = 70,
        .flush_every = FLUSH_EVERY_DEFAULT,
        .seed = 1,
        .stall_ns = 120000000000u,
    };
    verify_options_init(&options->check);
    argp_parse(&argp, argc, argv, 0, NULL, options);
}
