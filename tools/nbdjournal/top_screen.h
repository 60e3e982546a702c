/* top_screen: what `top` shows, drawn with curses. */
#ifndef NBDJOURNAL_TOP_SCREEN_H
#define NBDJOURNAL_TOP_SCREEN_H

#include <jansson.h>
#include <stdbool.h>

#include "rates.h"

/* What the columns say of disks and clients. */
enum top_table {
    TOP_REQUESTS,
    TOP_COMMITS, /* that answered them */
    TOP_WAITING, /* to be written home, and for space */
    TOP_TABLES
};

struct top_view {
    const char *socket;
    struct rates pair;   /* now NULL: no answer yet */
    const char *trouble; /* why there is no newer one; NULL: there is */
    bool clients;        /* are listed below their disks */
    bool paused;
    enum top_table table;
    unsigned scroll; /* rows of the table that are above the screen; bounded by drawing */
};

/* Takes the terminal; false: it can't. */
bool top_screen_begin(void);
void top_screen_end(void);
void top_screen_draw(struct top_view *view);
/* The next key, or ERR when none came for so long. */
int top_screen_key(int timeout_ms);

#endif
