/* loop: the thread that keeps time, around a libev loop of its own.
 *
 * It wakes up only when there is something to wait for: one timer, armed by the first change
 * after a quiet time, looks at what is due (due.c) and arms itself again for the next time.
 *
 * The loop is not libev's default one, which belongs to whoever loaded us, and takes nothing
 * from the environment.  Other threads only call ev_async_send.
 */
#include <errno.h>
#include <ev.h>
#include <stdlib.h>

#include "engine_state.h"

struct loop {
    struct ev_loop *ev;
    struct ev_timer timer;
    struct ev_async arm;  /* timer_armed was set */
    struct ev_async stop; /* life is STOPPING */
    struct engine *engine;
    uint64_t (*due)(struct engine *e);
};

void engine_arm_locked(struct engine *e)
{
    if (e->uncommitted_ns == 0)
        e->uncommitted_ns = clock_now_ns();
    engine_arm_timer_locked(e);
}

void engine_arm_timer_locked(struct engine *e)
{
    if (!e->timer_armed && e->loop != NULL) {
        e->timer_armed = true;
        ev_async_send(e->loop->ev, &e->loop->arm);
    }
}

static void timer_expired(struct ev_loop *ev, struct ev_timer *timer, int events)
{
    struct loop *loop = timer->data;
    struct engine *e = loop->engine;
    uint64_t due_ns, now_ns;
    LOCK_SCOPE(&e->lock);

    (void)events;
    e->timer_armed = false;
    if (e->life != ENGINE_ACTIVE)
        return;
    due_ns = loop->due(e);
    if (due_ns == 0)
        return;
    e->timer_armed = true;
    now_ns = clock_now_ns();
    ev_now_update(ev); /* a commit may have taken its time */
    ev_timer_set(timer, due_ns > now_ns ? (double)(due_ns - now_ns) / 1e9 : 0., 0.);
    ev_timer_start(ev, timer);
}

/* The first look is at once: it finds out when something will be due. */
static void arm_requested(struct ev_loop *ev, struct ev_async *async, int events)
{
    struct loop *loop = async->data;

    (void)events;
    if (!ev_is_active(&loop->timer)) {
        ev_timer_set(&loop->timer, 0., 0.);
        ev_timer_start(ev, &loop->timer);
    }
}

static void stop_requested(struct ev_loop *ev, struct ev_async *async, int events)
{
    (void)async;
    (void)events;
    ev_break(ev, EVBREAK_ALL);
}

int loop_create(struct engine *e, uint64_t (*due)(struct engine *e))
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL)
        return -ENOMEM;
    loop->ev = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (loop->ev == NULL) {
        free(loop);
        return -ENOMEM;
    }
    loop->engine = e;
    loop->due = due;
    ev_timer_init(&loop->timer, timer_expired, 0., 0.);
    ev_async_init(&loop->arm, arm_requested);
    ev_async_init(&loop->stop, stop_requested);
    loop->timer.data = loop->arm.data = loop->stop.data = loop;
    ev_async_start(loop->ev, &loop->arm);
    ev_async_start(loop->ev, &loop->stop);
    e->loop = loop;
    return 0;
}

struct ev_loop *loop_ev(struct engine *e)
{
    return e->loop->ev;
}

void loop_destroy(struct engine *e)
{
    if (e->loop == NULL)
        return;
    ev_loop_destroy(e->loop->ev);
    free(e->loop);
    e->loop = NULL;
}

void *loop_main(void *engine)
{
    struct engine *e = engine;

    ev_run(e->loop->ev, 0);
    return NULL;
}

void loop_stop(struct engine *e)
{
    ev_async_send(e->loop->ev, &e->loop->stop);
}
