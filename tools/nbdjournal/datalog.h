/* datalog: records as nbd-server's transaction log with data, which nbd-trplay replays.
 *
 * The log (nbd 3.23 and later, transactionlog= with datalog=true) is a sequence of NBD's own
 * messages, big-endian, as they came over the wire:
 *
 *   28 bytes   request: u32 magic 0x25609513, u16 flags, u16 command, u64 cookie, u64 offset,
 *              u32 length; after a WRITE its payload
 *   16 bytes   reply: u32 magic 0x67446698, u32 error, u64 cookie
 *
 * It begins with a request of magic 0x25609514, command 1, offset 0x4A93BA39A54F31B6 and length
 * 1: payloads follow from here on.
 *
 * An independent reader: what nbd-trplay makes of this log must be what our replay makes of the
 * journal.
 */
#ifndef NBDJOURNAL_DATALOG_H
#define NBDJOURNAL_DATALOG_H

#include <stdio.h>

#include "attach.h"

struct datalog {
    FILE *out;
    const struct journal_file *jf;
    uint8_t *payload;
    size_t payload_room;
    uint64_t requests; /* so far; the cookie of each is its number */
    uint64_t all_bits; /* of offsets and lengths: nbd-trplay works in blocks that divide all */
};

/* 0 or -errno, reported. */
int datalog_begin(struct datalog *log, FILE *out, const struct journal_file *jf);

/* A WRITE, TRIM or ZERO record.  0 or -errno, reported. */
int datalog_add(struct datalog *log, const struct record *record);

/* Frees.  Returns the largest block size that nbd-trplay -b can take for it. */
unsigned datalog_end(struct datalog *log);

#endif
