/* place: a directory for the files of a test, gone when the test ends. */
#ifndef TESTS_PLACE_H
#define TESTS_PLACE_H

#include <stdint.h>

/* Makes a new directory below `base` (NULL: $TMPDIR or /var/tmp, a file system with a disk) and
 * returns its path; removed with everything in it when the process that made it exits. */
const char *place_make(const char *base);

/* Path of a file in it; a static buffer, eight of them in turn. */
const char *place_path(const char *place, const char *name);

/* Makes a file of this size (sparse) there, or with these bytes. */
const char *place_file(const char *place, const char *name, uint64_t size);

#endif
