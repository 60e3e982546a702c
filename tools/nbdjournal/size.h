/* size: numbers of bytes, as people write and read them. */
#ifndef NBDJOURNAL_SIZE_H
#define NBDJOURNAL_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#define SIZE_TEXT_BYTES 64

/* "4096", "64M", "1.5 GiB" is not: whole numbers with one of nbdkit's suffixes (b K M G T P E,
 * upper or lower case, "iB" or "B" may follow).  False: no such number, or above 2^63-1. */
bool size_parse(const char *text, uint64_t *bytes);

/* "64 MiB", "1.5 GiB", "12 bytes" into text, which is returned. */
const char *size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES]);

/* "64 MiB (67108864 bytes)". */
const char *size_text_exact(uint64_t bytes, char text[SIZE_TEXT_BYTES]);

#endif
