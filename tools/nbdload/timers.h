/* timers: waits to the microsecond in a libev loop.
 *
 * An ev_timer on epoll is rounded up to a millisecond (100 us asked, 1.08 ms measured), so the
 * waits of a load go through one timerfd, and a tree says whose turn is next.
 */
#ifndef NBDLOAD_TIMERS_H
#define NBDLOAD_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include <ev.h>
#include <bsd/sys/tree.h>

struct timer {
    RB_ENTRY(timer) link;
    uint64_t due_ns;
    uint64_t order; /* of two with the same time, the one that was set first */
    bool set;
};

RB_HEAD(timer_tree, timer);

struct timers {
    struct timer_tree tree;
    ev_io watcher;
    int fd;
    uint64_t armed_ns; /* what the timerfd is set to; 0: nothing */
    uint64_t orders;
    void (*expired)(struct timer *timer); /* the timer is no longer set */
    void (*after)(void *context);         /* once after all that were due together */
    void *context;
};

/* CLOCK_MONOTONIC. */
uint64_t clock_ns(void);

/* -errno. */
int timers_start(struct timers *timers, struct ev_loop *loop,
                 void (*expired)(struct timer *timer), void (*after)(void *context),
                 void *context);
void timers_stop(struct timers *timers, struct ev_loop *loop);

/* A time that has passed expires in the loop's next turn. */
void timers_set(struct timers *timers, struct timer *timer, uint64_t due_ns);
void timers_cancel(struct timers *timers, struct timer *timer);

#endif
