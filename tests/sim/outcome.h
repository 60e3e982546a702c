/* outcome: what the programs of the simulator share: what they say, and the bug that was planted. */
#ifndef SIM_OUTCOME_H
#define SIM_OUTCOME_H

#include "world.h"

/* First of all: whoever dies says which world it was. */
void outcome_begin(void);

/* The program has a bug from now on, which must be found (journal/planted/planted.h). */
void outcome_plant(const char *number);

/* Exit code: 0 nothing was found, or what was planted was. */
int outcome_end(bool ok);

uint64_t outcome_states(const struct world_counts *counts);
void outcome_print(const struct world_counts *counts);

/* Ends the program if it is none. */
uint64_t outcome_number(const char *text);
/* I/N, with I below N.  The text is spoilt.  False: it is not that. */
bool outcome_shard(char *text, uint64_t *shard, uint64_t *shards);

#endif
