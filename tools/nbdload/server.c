/* server: see server.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server.h"
#include "timers.h"

#define INTERVAL_NS_FIRST 100000000u
#define TIMEOUT_MS 10000

/* Every other one, and from now on half as often. */
static void thin_out(struct server *s)
{
    for (unsigned i = 0; i < SERVER_SAMPLES_MAX / 2; i++)
        s->samples[i] = s->samples[2 * i];
    s->sample_count = SERVER_SAMPLES_MAX / 2;
    s->interval_ns *= 2;
}

/* A server that was started again counts anew. */
static void look(struct server *s)
{
    json_t *o = ask_control(s->socket, "stats", TIMEOUT_MS, s->why);

    if (o == NULL)
        return;
    s->why[0] = '\0';
    if (s->sample_count == SERVER_SAMPLES_MAX)
        thin_out(s);
    s->samples[s->sample_count++] =
        (struct server_sample){.ns = clock_ns(),
                               .commits = ask_number(o, "commits.answered"),
                               .flushes = ask_number(o, "commits.flushes")};
    if (s->first == NULL || ask_number(s->first, "pid") != ask_number(o, "pid")) {
        json_decref(s->first);
        s->first = json_incref(o);
    }
    json_decref(s->last);
    s->last = o;
}

/* False: the end. */
static bool wait_for_next(struct server *s)
{
    uint64_t due_ns = clock_ns() + s->interval_ns;
    struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000),
                           .tv_nsec = (long)(due_ns % 1000000000)};
    bool ended;

    pthread_mutex_lock(&s->lock);
    while (!s->ended && pthread_cond_timedwait(&s->wake, &s->lock, &due) != ETIMEDOUT)
        ;
    ended = s->ended;
    pthread_mutex_unlock(&s->lock);
    return !ended;
}

static void *server_main(void *opaque)
{
    struct server *s = opaque;

    while (wait_for_next(s))
        look(s);
    look(s);
    return NULL;
}

int server_begin(struct server *s, const char *socket)
{
    pthread_condattr_t attributes;
    int r;

    memset(s, 0, sizeof(*s));
    s->socket = socket;
    s->interval_ns = INTERVAL_NS_FIRST;
    look(s);
    if (s->first == NULL) {
        fprintf(stderr, "nbdload: %s\n", s->why);
        return -1;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    r = pthread_create(&s->thread, NULL, server_main, s);
    if (r != 0) {
        fprintf(stderr, "nbdload: a thread can't be started: %s\n", strerror(r));
        server_free(s);
        return -1;
    }
    return 0;
}

void server_end(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    if (s->why[0] != '\0')
        fprintf(stderr, "nbdload: %s\n", s->why);
}

void server_free(struct server *s)
{
    json_decref(s->first);
    json_decref(s->last);
    s->first = s->last = NULL;
}

struct rates server_rates(const struct server *s)
{
    return rates_make(s->last, s->first);
}

double server_flushes_per_commit(const struct server *s)
{
    struct rates r = server_rates(s);
    uint64_t commits = rates_growth(&r, "commits.answered");

    return commits == 0 ? 0 : (double)rates_growth(&r, "commits.flushes") / (double)commits;
}

bool server_piece(const struct server *s, unsigned j, uint64_t start_ns, double *seconds,
                  double *flushes_per_commit, double *commits_per_second)
{
    const struct server_sample *a, *b;

    if (j + 1 >= s->sample_count)
        return false;
    a = &s->samples[j];
    b = &s->samples[j + 1];
    if (a->ns < start_ns || b->ns <= a->ns || b->commits <= a->commits ||
        b->flushes < a->flushes)
        return false;
    *seconds = (double)(a->ns - start_ns + (b->ns - a->ns) / 2) / 1e9;
    *flushes_per_commit = (double)(b->flushes - a->flushes) / (double)(b->commits - a->commits);
    *commits_per_second = (double)(b->commits - a->commits) * 1e9 / (double)(b->ns - a->ns);
    return true;
}
