/* super: superblocks that a command writes itself, while no server and no core is at work.
 *
 * The copy that does not count now is overwritten and made durable: a crash leaves the old one
 * or the new one.
 */
#ifndef NBDJOURNAL_SUPER_H
#define NBDJOURNAL_SUPER_H

#include "attach.h"

/* Writes *sb as the next generation; on success jf->sb says the same, except for the table of
 * images, which stays as it was read.  0 or -errno, reported. */
int super_write(struct journal_file *jf, struct superblock *sb);

/* Makes *sb describe an empty ring: nothing that stands in the ring can be taken for a record of
 * it, since the tail is moved beyond all of them: position, lsn and epoch.  False and reported:
 * the numbers are used up. */
bool super_empty_ring(const struct journal_file *jf, struct superblock *sb);

#endif
