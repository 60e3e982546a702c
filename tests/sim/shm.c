/* shm: see shm.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "shm.h"

void shm_begin(struct shm *shm, uint64_t bytes, uint64_t ring_bytes, unsigned boot,
               uint32_t epoch, uint64_t start)
{
    free(shm->slots);
    *shm = (struct shm){
        .exists = true,
        .boot = boot,
        .epoch = epoch,
        .ring_bytes = ring_bytes,
        .bytes = bytes,
        .start = start,
        .submitted = start,
        .claimed = start,
        .slots = memory_get(bytes),
    };
}

void shm_remove(struct shm *shm)
{
    free(shm->slots);
    *shm = (struct shm){.exists = false};
}

bool shm_claim(struct shm *shm, uint64_t end)
{
    if (shm->attached || end > shm->submitted + shm->bytes / 2)
        return false;
    if (shm->claimed < end)
        shm->claimed = end;
    return true;
}

void shm_write(struct shm *shm, uint64_t position, const uint8_t *bytes, size_t count)
{
    for (; count > 0; count--)
        shm->slots[position++ % shm->bytes] = *bytes++;
}

void shm_slots_read(const struct shm *shm, uint64_t position, uint8_t *bytes, size_t count)
{
    for (; count > 0; count--)
        *bytes++ = shm->slots[position++ % shm->bytes];
}

void shm_read(const struct shm *shm, const uint8_t *ring, uint64_t position, uint8_t *bytes,
              size_t count)
{
    uint64_t window = shm->bytes / 2, oldest, from, to;

    if (shm->attached) {
        oldest = shm->tail;
        from = shm->submitted;
        to = from + shm->bytes;
    } else {
        from = shm->claimed > shm->start + window ? shm->claimed - window : shm->start;
        oldest = from;
        to = shm->claimed;
    }
    /* Who reads knows a place in the file, not a position. */
    for (uint64_t at = position % shm->ring_bytes; count > 0; count--, at++) {
        uint64_t v =
            oldest + (at + shm->ring_bytes - oldest % shm->ring_bytes) % shm->ring_bytes;

        *bytes++ = v >= from && v < to ? shm->slots[v % shm->bytes] : ring[at];
    }
}

void shm_overlay(const struct shm *shm, uint64_t tail, uint8_t *ring)
{
    uint64_t end = shm->submitted + shm->bytes;

    if (end > tail + shm->ring_bytes)
        end = tail + shm->ring_bytes;
    for (uint64_t v = shm->submitted; v < end; v++)
        ring[v % shm->ring_bytes] = shm->slots[v % shm->bytes];
}
