/* nbdjournal top
 *
 * Each look is a connection of its own, so a server that was stopped and started again is simply
 * there again, and what was seen last stays on the screen meanwhile. */
#include <argp.h>
#include <curses.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"
#include "nbdjournal.h"
#include "report.h"
#include "socket_argument.h"
#include "top_screen.h"

/* Keys are not looked at while a server that hangs is waited for. */
#define TIMEOUT_MS 1000

#define INTERVAL_MIN 0.1
#define INTERVAL_MAX 3600.

struct top_arguments {
    const char *socket;
    double interval_s;
};

static const struct argp_option options[] = {
    {.name = "interval",
     .key = 'i',
     .arg = "SECONDS",
     .doc = "Between two looks, from 0.1 on; 1 by default"},
    {0}};

static volatile sig_atomic_t ended;

static void end(int number)
{
    (void)number;
    ended = 1;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct top_arguments *a = state->input;
    char *rest;

    switch (key) {
    case 'i':
        a->interval_s = strtod(argument, &rest);
        if (rest == argument || *rest != '\0' || !isfinite(a->interval_s) ||
            a->interval_s < INTERVAL_MIN || a->interval_s > INTERVAL_MAX)
            argp_error(state, "--interval %s: must be a number of seconds from %g to %g",
                       argument, INTERVAL_MIN, INTERVAL_MAX);
        return 0;
    default:
        return socket_argument(key, argument, state, &a->socket);
    }
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The last two answers. */
struct looks {
    json_t *now, *before;
    char why[ASK_WHY_BYTES];
};

static void look(struct looks *l, struct top_view *view)
{
    json_t *o = ask_control(view->socket, "stats", TIMEOUT_MS, l->why);

    view->trouble = o == NULL ? l->why : NULL;
    if (o == NULL)
        return;
    json_decref(l->before);
    l->before = l->now;
    l->now = o;
    view->pair = rates_make(l->now, l->before);
}

/* False: the end. */
static bool obey(int key, struct top_view *view)
{
    switch (key) {
    case 'q':
    case 'Q':
    case 3: /* Control-C, on a terminal that makes no signal of it */
        return false;
    case 'p':
        view->paused = !view->paused;
        break;
    case 'c':
        view->clients = !view->clients;
        break;
    case 'v':
        view->table = (view->table + 1) % TOP_TABLES;
        break;
    case KEY_DOWN:
        view->scroll++; /* bounded by drawing */
        break;
    case KEY_UP:
        view->scroll -= view->scroll > 0;
        break;
    default: /* KEY_RESIZE: curses knows the new size */
        break;
    }
    return true;
}

static void show(struct top_view *view, double interval_s)
{
    struct looks l = {0};
    int64_t interval_ms = (int64_t)(interval_s * 1000), next_ms = now_ms(), left_ms;

    while (!ended) {
        if (!view->paused && now_ms() >= next_ms) {
            look(&l, view);
            next_ms = now_ms() + interval_ms;
        }
        top_screen_draw(view);
        left_ms = view->paused ? interval_ms : next_ms - now_ms();
        if (!obey(top_screen_key(left_ms > 0 ? (int)left_ms : 0), view))
            break;
    }
    json_decref(l.now);
    json_decref(l.before);
}

enum tool_exit top_command(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "SOCKET",
        .doc = "Shows what a running server does, again and again: the one that was started "
               "with control=SOCKET."};
    struct top_arguments a = {.interval_s = 1};
    struct top_view view = {.clients = true};
    char why[ASK_WHY_BYTES];
    json_t *first;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
        return TOOL_FAILED;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        report_error("top needs a terminal; for a program or a file there is `nbdjournal stats "
                     "%s`",
                     a.socket);
        return TOOL_FAILED;
    }
    /* A wrong path is said in a line that stays. */
    first = ask_control(a.socket, "version", TIMEOUT_MS, why);
    if (first == NULL) {
        report_error("%s", why);
        return TOOL_FAILED;
    }
    json_decref(first);
    if (!top_screen_begin()) {
        report_error("this terminal (TERM=%s) can't be used; `nbdjournal stats %s` needs none",
                     getenv("TERM") != NULL ? getenv("TERM") : "", a.socket);
        return TOOL_FAILED;
    }
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGHUP, end);
    view.socket = a.socket;
    show(&view, a.interval_s);
    top_screen_end();
    return TOOL_OK;
}
