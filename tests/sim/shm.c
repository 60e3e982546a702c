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
    if (shm->attached || end > shm->submitted + shm->bytes / 2 + shm->bytes / 8)
        return false;
    if (shm->claimed < end)
        shm->claimed = end;
    return true;
}

/* How many bytes there are from `v` to the next multiple of `unit`, at most `count`. */
static size_t upto_wrap(uint64_t v, uint64_t unit, size_t count)
{
    uint64_t left = unit - v % unit;

    return left < count ? left : count;
}

void shm_write(struct shm *shm, uint64_t position, const uint8_t *bytes, size_t count)
{
    for (size_t piece; count > 0; count -= piece, position += piece, bytes += piece) {
        piece = upto_wrap(position, shm->bytes, count);
        memcpy(shm->slots + position % shm->bytes, bytes, piece);
    }
}

void shm_slots_read(const struct shm *shm, uint64_t position, uint8_t *bytes, size_t count)
{
    for (size_t piece; count > 0; count -= piece, position += piece, bytes += piece) {
        piece = upto_wrap(position, shm->bytes, count);
        memcpy(bytes, shm->slots + position % shm->bytes, piece);
    }
}

/* Bytes [v, v + count) of virtual positions, all of them or none in [from, to). */
static size_t same_side(uint64_t v, uint64_t from, uint64_t to, size_t count)
{
    if (v < from && from - v < count)
        return from - v;
    if (v >= from && v < to && to - v < count)
        return to - v;
    return count;
}

void shm_read(const struct shm *shm, const uint8_t *ring, uint64_t position, uint8_t *bytes,
              size_t count)
{
    uint64_t window = shm->bytes / 2, oldest, from, to;
    uint64_t at = position % shm->ring_bytes;

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
    for (size_t piece; count > 0; count -= piece, at += piece, bytes += piece) {
        uint64_t lap = (at + shm->ring_bytes - oldest % shm->ring_bytes) % shm->ring_bytes;
        uint64_t v = oldest + lap;

        piece = upto_wrap(lap, shm->ring_bytes, count);
        piece = same_side(v, from, to, piece);
        if (v >= from && v < to)
            shm_slots_read(shm, v, bytes, piece);
        else
            memcpy(bytes, ring + at, piece);
    }
}

void shm_overlay(const struct shm *shm, uint64_t tail, uint8_t *ring)
{
    uint64_t end = shm->submitted + shm->bytes;

    if (end > tail + shm->ring_bytes)
        end = tail + shm->ring_bytes;
    for (uint64_t v = shm->submitted, piece; v < end; v += piece) {
        piece = upto_wrap(v, shm->ring_bytes, end - v);
        shm_slots_read(shm, v, ring + v % shm->ring_bytes, piece);
    }
}
