/* timers: see timers.h. */
#include <assert.h>
#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "timers.h"

static int timer_compare(const struct timer *a, const struct timer *b)
{
    if (a->due_ns != b->due_ns)
        return a->due_ns < b->due_ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function" /* the macro makes more than we call */
RB_GENERATE_INTERNAL(timer_tree, timer, link, timer_compare, static)
#pragma GCC diagnostic pop

uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

static void timers_arm(struct timers *timers)
{
    struct timer *first = RB_MIN(timer_tree, &timers->tree);
    uint64_t due_ns = first == NULL ? 0 : first->due_ns;
    struct itimerspec setting = {0};

    if (due_ns == timers->armed_ns)
        return;
    timers->armed_ns = due_ns;
    setting.it_value.tv_sec = due_ns / 1000000000u;
    setting.it_value.tv_nsec = due_ns % 1000000000u;
    timerfd_settime(timers->fd, TFD_TIMER_ABSTIME, &setting, NULL);
}

static void timers_remove(struct timers *timers, struct timer *timer)
{
    RB_REMOVE(timer_tree, &timers->tree, timer);
    timer->set = false;
}

static void timers_fired(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct timers *timers = watcher->data;
    struct timer *first;
    uint64_t expirations, now_ns = clock_ns();

    (void)loop;
    (void)events;
    /* Empty when the timer was set anew meanwhile: then there is just nothing due yet. */
    (void)!read(timers->fd, &expirations, sizeof expirations);
    while ((first = RB_MIN(timer_tree, &timers->tree)) != NULL && first->due_ns <= now_ns) {
        timers_remove(timers, first);
        timers->expired(first);
    }
    timers->armed_ns = 0;
    timers_arm(timers);
    timers->after(timers->context);
}

int timers_start(struct timers *timers, struct ev_loop *loop,
                 void (*expired)(struct timer *timer), void (*after)(void *context),
                 void *context)
{
    RB_INIT(&timers->tree);
    timers->expired = expired;
    timers->after = after;
    timers->context = context;
    timers->armed_ns = 0;
    timers->orders = 0;
    timers->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timers->fd < 0)
        return -errno;
    ev_io_init(&timers->watcher, timers_fired, timers->fd, EV_READ);
    timers->watcher.data = timers;
    ev_io_start(loop, &timers->watcher);
    return 0;
}

void timers_stop(struct timers *timers, struct ev_loop *loop)
{
    ev_io_stop(loop, &timers->watcher);
    close(timers->fd);
}

void timers_set(struct timers *timers, struct timer *timer, uint64_t due_ns)
{
    assert(!timer->set);
    timer->due_ns = due_ns == 0 ? 1 : due_ns; /* 0 would switch the timerfd off */
    timer->order = timers->orders++;
    timer->set = true;
    RB_INSERT(timer_tree, &timers->tree, timer);
    timers_arm(timers);
}

void timers_cancel(struct timers *timers, struct timer *timer)
{
    if (!timer->set)
        return;
    timers_remove(timers, timer);
    timers_arm(timers);
}
