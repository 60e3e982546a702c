/* faulty: a storage around another one, that fails, lies or hangs as a test wants it.
 *
 * Calls are counted by operation.  All functions are thread-safe; rules can be changed while
 * calls are under way and hold from the next call on.
 */
#ifndef TESTS_FAULTY_H
#define TESTS_FAULTY_H

#include "storage.h"

enum faulty_op {
    FAULTY_READ,
    FAULTY_READ_COLD,
    FAULTY_WRITE,
    FAULTY_ZERO,
    FAULTY_BARRIER,
    FAULTY_SUBMIT,
    FAULTY_EXTENT,
    FAULTY_OPS,
};

/* Takes `inner` over (closed with this one).  with_fd: shows inner's descriptor, so that it is
 * recognised as that file; but who uses the descriptor goes past this storage (marks, and
 * staging's direct writes).  Without, it looks like a remote one.  NULL: no memory. */
struct storage *faulty_create(struct storage *inner, bool with_fd);

/* Calls so far, failed ones too. */
unsigned long faulty_calls(struct storage *s, enum faulty_op op);

/* The nth call of op from now on (1: the next) returns -error without doing anything, and so do
 * all after it if `for_ever`.  One rule an operation: replaces the old one. */
void faulty_fail(struct storage *s, enum faulty_op op, unsigned long nth, int error,
                 bool for_ever);

/* The same for WRITE, but the first bytes of it are written before it fails (once). */
void faulty_write_partly(struct storage *s, unsigned long nth, size_t bytes, int error);

/* No more failures of op. */
void faulty_heal(struct storage *s, enum faulty_op op);

/* Barriers return 0 and do nothing: P1 is broken, a test of that must notice. */
void faulty_skip_barriers(struct storage *s, bool skip);

/* Calls of op wait, before they do anything, until they are released. */
void faulty_block(struct storage *s, enum faulty_op op);
void faulty_release(struct storage *s, enum faulty_op op);

/* Waits until n calls of op are waiting. */
void faulty_wait_blocked(struct storage *s, enum faulty_op op, unsigned n);

/* Called before each call does anything, in the caller's thread; offset and count are 0 for a
 * barrier.  Set it before the storage is used by others. */
void faulty_watch(struct storage *s,
                  void (*watch)(void *opaque, enum faulty_op op, uint64_t offset,
                                uint64_t count),
                  void *opaque);

#endif
