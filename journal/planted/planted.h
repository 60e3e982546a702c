/* planted: bugs on purpose, to show that the tests find such bugs.
 *
 * Each is one line at the place where a real one could be, `if (PLANTED(n))` or alike.  In a
 * normal build PLANTED(n) is the constant 0 and nothing is left of it.  `meson setup
 * -Dplanted=N` builds everything with bug N.  The simulator's own copy of the core chooses at
 * run time, so that one build serves all (tests/sim/meson.build, where each number has its name
 * and its test).
 */
#ifndef JOURNAL_PLANTED_H
#define JOURNAL_PLANTED_H

#if defined(PLANTED_AT_RUN_TIME)
extern int planted_bug; /* 0: none */
#define PLANTED(n) (planted_bug == (n))
#elif defined(PLANTED_BUG)
#define PLANTED(n) ((n) == PLANTED_BUG)
#else
#define PLANTED(n) 0
#endif

#endif
