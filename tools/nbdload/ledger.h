/* ledger: what a server owes, sector by sector.
 *
 * A file, mapped into memory: what is stored there outlives nbdload, also when it is killed in
 * the middle of a line (the page cache keeps it).  It need not outlive the machine it runs on: it
 * is for the death of the server.
 *
 *      header      4096 bytes
 *      per disk    4096 bytes
 *      entries     40 bytes per sector of each disk's range, sparse
 *
 * Everything that happens gets a number from one counter: a write when it is sent (this
 * is its sequence), its answer, a flush when it is sent.  So "answered before that flush was sent"
 * is a comparison.  No two writes to a sector are ever in flight together (the ledger keeps
 * them apart), so the versions of a sector are ordered by sequence.  Of them an entry keeps
 *
 *      issued      the newest that was sent
 *      answered    the newest that was answered with success, the answer's number, and how
 *                  many bytes that write had
 *      flushed     the newest that is known to be covered by an answered flush, or had FUA;
 *                  also `answered`, if its answer is older than the disk's newest answered flush
 *
 * and  flushed <= answered <= issued.  After a crash the sector must hold one of the versions from
 * `answered` (kill -9: P0) or `flushed` (power cut: P1) up to `issued`.
 *
 * Every update is such that being killed between two stores leaves weaker claims, never wrong ones.
 */
#ifndef NBDLOAD_LEDGER_H
#define NBDLOAD_LEDGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "stamp.h"

#define LEDGER_DISKS_MAX 4096

struct ledger_entry {
    uint64_t issued; /* 0: nothing is known of the sector */
    uint64_t answered;
    uint64_t answered_at;
    uint64_t flushed;
    uint32_t answered_length;
    uint32_t unused;
};

struct ledger_superseded {
    uint64_t sector; /* from the range's start */
    uint64_t sequence;
};

/* A flush in flight.  A version that is overwritten meanwhile leaves the entry, but if the flush
 * succeeds it was flushed: those are remembered here. */
struct ledger_flush {
    uint64_t sent_at;
    TAILQ_ENTRY(ledger_flush) link;
    struct ledger_superseded *superseded;
    size_t superseded_count, superseded_room;
};

struct ledger_disk_head;

struct ledger_disk {
    struct ledger *ledger;
    struct ledger_disk_head *head;
    uint32_t number;
    uint64_t size, start, end; /* bytes; only from start to end there are entries */
    struct ledger_entry *entries;
    uint64_t sectors;
    uint64_t *seen; /* newest version that a read of this run has seen */
    uint8_t *busy;  /* one bit each: a write is in flight */
    TAILQ_HEAD(, ledger_flush) flushes;
    /* Sectors that were read while a write of them was in flight, and were half old and half new:
     * servers may do that. */
    uint64_t torn_reads;
};

struct ledger_head;

struct ledger {
    char *path;
    int fd;
    void *map;
    size_t map_bytes;
    struct ledger_head *head;
    struct ledger_disk *disks;
    uint32_t disk_count;
    bool created; /* by this open */
};

struct ledger_spec {
    const char *uri; /* for people */
    uint64_t size, start, end;
};

/* Opens the ledger for these disks, or creates it.  An existing one must be of as many disks of
 * these sizes; its range counts.  `create` false: it must be there.  -1: reported. */
int ledger_open(struct ledger *ledger, const char *path, const struct ledger_spec *specs,
                uint32_t count, bool create);
void ledger_close(struct ledger *ledger);

const uint8_t *ledger_id(const struct ledger *ledger);
uint64_t ledger_event(struct ledger *ledger); /* the next number */

/* What a run found broken, for every later look at the ledger.  Empty: nothing. */
const char *ledger_broken(const struct ledger *ledger);
void ledger_note_broken(struct ledger *ledger, const char *text);

/* ---- while a load runs ---- */

/* A write in flight touches one of the sectors. */
bool ledger_busy(const struct ledger_disk *disk, uint64_t offset, uint32_t length);

/* Before the write is sent; returns its sequence. */
uint64_t ledger_write_begin(struct ledger_disk *disk, uint64_t offset, uint32_t length);
void ledger_write_end(struct ledger_disk *disk, uint64_t offset, uint32_t length,
                      uint64_t sequence, bool answered, bool fua);

/* Around a trim or zero: nothing is known of the sectors any more. */
void ledger_forget_begin(struct ledger_disk *disk, uint64_t offset, uint32_t length);
void ledger_forget_end(struct ledger_disk *disk, uint64_t offset, uint32_t length);

void ledger_flush_begin(struct ledger_disk *disk, struct ledger_flush *flush);
void ledger_flush_end(struct ledger_disk *disk, struct ledger_flush *flush, bool answered);

/* The versions below which the read must not be: one for each sector, taken when it is sent. */
void ledger_read_begin(const struct ledger_disk *disk, uint64_t offset, uint32_t length,
                       uint64_t *floors);

/* P7: true, or a text that says which sector is wrong and how. */
bool ledger_read_end(struct ledger_disk *disk, uint64_t offset, uint32_t length,
                     const uint64_t *floors, const void *buffer, char *text, size_t size);

/* ---- afterwards ---- */

/* The newest version that must survive a power cut. */
uint64_t ledger_flushed(const struct ledger_disk *disk, const struct ledger_entry *entry);

/* The sector holds this version now, whatever was owed.  `final`: nothing that was sent before can
 * still have an effect. */
void ledger_settle(struct ledger_disk *disk, uint64_t sector, uint64_t sequence, bool final);

#endif
