/* progress: one line on standard error, if that is a terminal. */
#ifndef NBDLOAD_PROGRESS_H
#define NBDLOAD_PROGRESS_H

struct load;

void progress_show(const struct load *load);
void progress_clear(void);

#endif
