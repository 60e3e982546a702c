/* loop: a loop device on a file, for tests of block devices (root only). */
#ifndef TESTS_LOOP_H
#define TESTS_LOOP_H

#include <stdbool.h>

struct loop {
    char path[32]; /* /dev/loopN */
};

/* Attaches a file; the device detaches itself when nobody has it open any more, also when the
 * test dies.  Keep *fd open as long as the device is needed.  False: not possible here (*why
 * says what failed). */
bool loop_attach(struct loop *loop, const char *file, unsigned sector_bytes, bool read_only,
                 int *fd, const char **why);

#endif
