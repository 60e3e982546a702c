/* progress: a bar on standard error while something takes its time, if that is a terminal. */
#ifndef NBDJOURNAL_PROGRESS_H
#define NBDJOURNAL_PROGRESS_H

#include <stdint.h>

/* One at a time.  what: a word or two before the bar. */
void progress_begin(const char *what);
/* Fits journal_recover; opaque is not used.  Draws ten times a second at most. */
void progress_update(void *opaque, uint64_t done, uint64_t total);
/* Takes the bar away, so that other words can be printed; the next update shows it again. */
void progress_clear(void);
void progress_end(void);

#endif
