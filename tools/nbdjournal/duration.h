/* duration: lengths of time, as people read them. */
#ifndef NBDJOURNAL_DURATION_H
#define NBDJOURNAL_DURATION_H

#include <stdint.h>

#define DURATION_TEXT_BYTES 32

/* "0", "850 ns", "12.3 us", "1.25 ms", "4.2 s", "12 min", "3 h", "5 days": three digits or so,
 * 8 characters at most. */
const char *duration_text(uint64_t ns, char text[DURATION_TEXT_BYTES]);

#endif
