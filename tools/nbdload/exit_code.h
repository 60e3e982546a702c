/* exit_code: how nbdload ends. */
#ifndef NBDLOAD_EXIT_CODE_H
#define NBDLOAD_EXIT_CODE_H

/* The command's exit codes; an interrupted run ends with 128 and the signal's number. */
enum {
    EXIT_DONE = 0,
    EXIT_BROKEN = 1, /* data is not what it must be */
    EXIT_USAGE = 2,  /* or a file of ours could not be used */
    EXIT_ERRORS = 3, /* requests were answered with errors */
    EXIT_GONE = 4,   /* the server could not be reached, went away, or does not answer */
};

#endif
