/* shm: staging of the simulator (journal/storage/staging.h): memory that survives the death of the
 * process and not a power cut.
 *
 * Same rules as there: the byte at virtual position v is in slot v % bytes; what is older than
 * half of it behind the newest is read from the disk; after a kill [submitted, submitted + bytes)
 * is laid over the ring.  A slot that is overwritten too early shows wrong bytes, here as there.
 */
#ifndef SIM_SHM_H
#define SIM_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shm {
    bool exists;
    bool attached; /* left by a dead server: nothing is written to it */
    /* Instead of exists: this server does not need it, and leaves it where it is until a barrier
     * has made that final (a CLEAN superblock may be in the page cache only). */
    bool ignored;
    unsigned boot; /* the machine's life that it belongs to */
    uint32_t epoch;
    uint64_t ring_bytes;
    uint64_t bytes;     /* of slots */
    uint64_t start;     /* what is before it was on the disk when this began */
    uint64_t tail;      /* attached: the oldest position that matters */
    uint64_t submitted; /* so is what is before this, and [start, submitted) */
    uint64_t claimed;   /* end of the newest record that is, or is being, copied */
    uint8_t *slots;
};

void shm_begin(struct shm *shm, uint64_t bytes, uint64_t ring_bytes, unsigned boot,
               uint32_t epoch, uint64_t start);
void shm_remove(struct shm *shm);

/* A record is going to be copied to [.., end).  False: that breaks the bound. */
bool shm_claim(struct shm *shm, uint64_t end);
void shm_write(struct shm *shm, uint64_t position, const uint8_t *bytes, size_t count);
void shm_slots_read(const struct shm *shm, uint64_t position, uint8_t *bytes, size_t count);

/* A read of the ring, at the place of `position`: the bytes, and those that are not in memory are
 * taken from `ring` (the disk's). */
void shm_read(const struct shm *shm, const uint8_t *ring, uint64_t position, uint8_t *bytes,
              size_t count);

/* What the next server finds, with its tail at `tail`: the staged bytes over the ring's. */
void shm_overlay(const struct shm *shm, uint64_t tail, uint8_t *ring);

#endif
