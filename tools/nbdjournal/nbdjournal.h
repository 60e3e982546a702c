/* nbdjournal: what its commands share with the dispatcher.
 *
 * One file a command; each parses its own arguments (argp of glibc, which exits with
 * TOOL_FAILED after a usage error) and returns how the program ends.
 */
#ifndef NBDJOURNAL_H
#define NBDJOURNAL_H

#include <stdbool.h>
#include <stdint.h>

enum tool_exit {
    TOOL_OK = 0,
    TOOL_OPEN = 1,    /* all is well, and something is left to do: check found a journal that
                         needs replay, or what was asked for needs --yes and was not done */
    TOOL_DAMAGED = 2, /* the journal is damaged */
    TOOL_FAILED = 3,  /* usage, input or output; what was asked for was not done */
};

enum tool_exit create_command(int argc, char **argv);
enum tool_exit info_command(int argc, char **argv);
enum tool_exit check_command(int argc, char **argv);
enum tool_exit dump_command(int argc, char **argv);
enum tool_exit replay_command(int argc, char **argv);
enum tool_exit resize_command(int argc, char **argv);
enum tool_exit adopt_command(int argc, char **argv);
enum tool_exit forget_command(int argc, char **argv);
enum tool_exit stats_command(int argc, char **argv);
enum tool_exit top_command(int argc, char **argv);

/* After a command said what it would do: TOOL_OK to go on, or TOOL_OPEN, and says that nothing
 * was changed. */
enum tool_exit nbdjournal_confirm(bool yes);

/* Throws the library's words away, or no longer: for a question of ours, not of the user. */
void nbdjournal_be_quiet(bool quiet);

/* False and reported: no journal can have this size.  create.c, for resize too. */
bool create_size_allowed(uint64_t size);

#endif
