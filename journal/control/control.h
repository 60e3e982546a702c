/* control: a Unix socket on which a running server tells what it does.
 *
 * One request a line, one answer a line, both JSON objects:
 *
 *   {"command": "stats"}      the numbers: control_answer.c has the list
 *   {"command": "version"}    {"protocol": 1, "version": "0.1.0", "pid": ...}
 *
 * A request may have an "id" (any value), which its answer repeats.  What is wrong with a request
 * is told by {"error": "words"}; the connection goes on, unless the end of the line can't be
 * found.  Members may be added to an answer; "protocol" grows when one changes its meaning.
 *
 * The socket (control_socket.c) belongs to who starts the server, mode 0600, like the journal.  It is
 * made before the engine is opened, when its errors can be seen, and served by the engine's loop:
 * control.c.
 *
 * Bounds (P8): CONTROL_CONNECTIONS_MAX at a time, a new one takes the place of the one that was
 * silent longest; CONTROL_LINE_MAX bytes of a request; one answer for each, after which the next
 * request is read; who does not take his answer for CONTROL_SLOW_S seconds is dropped.
 */
#ifndef JOURNAL_CONTROL_H
#define JOURNAL_CONTROL_H

#include <stddef.h>

struct control;
struct engine;
struct ev_loop;

#define CONTROL_CONNECTIONS_MAX 16
#define CONTROL_LINE_MAX 4096
#define CONTROL_SLOW_S 10.

/* Makes the socket and listens.  One that a dead server left is replaced; anything else that is
 * there is left alone, and an error.  Reported; -errno. */
int control_open(struct control **out, const char *path);

/* Answers in this loop from now on.  Called before the loop's thread begins (engine.h,
 * loop_begin). */
void control_serve(struct control *c, struct engine *e, struct ev_loop *loop);

/* Removes the socket, if it is still ours, and drops who is connected.  The loop must not run any
 * more.  NULL: nothing. */
void control_close(struct control *c);

#endif
