/* legal: which bytes a disk may show, while requests overlap in flight.
 *
 * A request takes effect at some moment between being sent and being answered.  So a byte may
 * show what a change wrote, as soon as that was sent, and until another change of this byte,
 * sent after the first one was answered, has been answered itself (P7); a read may see all
 * that was legal at any moment between its own two ends.  What was once read whole is from
 * then on as if answered: bytes never go back.
 *
 * After kill -9 every answered change is there (P0), and what was in flight is there or not,
 * whole (P3); what it is has to be found once, and stays.
 *
 * Not thread-safe: the caller says what happens in an order that is true.  It may say "sent"
 * too early and "answered" too late, which only makes more bytes legal.
 */
#ifndef TESTS_LEGAL_H
#define TESTS_LEGAL_H

#include <stdbool.h>
#include <stdint.h>

struct legal;
struct legal_change;

/* A disk of zeroes. */
struct legal *legal_create(uint64_t bytes);
void legal_destroy(struct legal *l);

/* The bytes of a content (0: zeroes) at this place of the disk. */
void legal_bytes(uint64_t content, uint64_t offset, uint8_t *out, uint64_t count);

/* content: 0, or a number that no other change has.  atomic: after a crash it is there whole
 * or not at all. */
struct legal_change *legal_sent(struct legal *l, uint64_t offset, uint64_t length,
                                uint64_t content, bool atomic);
void legal_answered(struct legal *l, struct legal_change *change);

/* A read: the stamp of its beginning, for its end.  False: these bytes are not legal, and what
 * is wrong was printed. */
uint64_t legal_read_sent(struct legal *l);
bool legal_read_answered(struct legal *l, uint64_t stamp, uint64_t offset, const uint8_t *bytes,
                         uint64_t count);

/* The server is dead: nothing in flight is answered any more (their changes are not the caller's
 * from here on).  Then the whole disk as it was found, and that is what it is. */
void legal_crashed(struct legal *l);
bool legal_found(struct legal *l, const uint8_t *bytes);

/* How many changes were found after crashes that nobody had been told of: whole, and not. */
struct legal_counts {
    uint64_t unanswered, unanswered_there;
    uint64_t bytes_compared, bytes_in_flight; /* the latter: more than one value was legal */
};
const struct legal_counts *legal_counts_get(const struct legal *l);

#endif
