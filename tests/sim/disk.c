/* disk: see disk.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"
#include "memory.h"

void disk_init(struct disk *disk, const char *name, size_t size)
{
    size_t bytes;

    *disk = (struct disk){.name = name, .size = size};
    disk->sectors = (size + DISK_SECTOR - 1) / DISK_SECTOR;
    bytes = disk->sectors * DISK_SECTOR;
    disk->cache = memory_get(bytes);
    disk->device = memory_get(bytes);
    disk->stable = memory_get(bytes);
    disk->view = memory_get(bytes);
    disk->newest = memory_get(disk->sectors * sizeof(*disk->newest));
    disk->pending = memory_get(disk->sectors * sizeof(*disk->pending));
    disk->choice = memory_get(disk->sectors * sizeof(*disk->choice));
    disk->touched = memory_get(disk->sectors * sizeof(*disk->touched));
    disk->is_touched = memory_get(disk->sectors * sizeof(*disk->is_touched));
    disk->lost = memory_get(disk->sectors * sizeof(*disk->lost));
}

void disk_destroy(struct disk *disk)
{
    free(disk->cache);
    free(disk->device);
    free(disk->stable);
    free(disk->view);
    free(disk->newest);
    free(disk->pending);
    free(disk->choice);
    free(disk->touched);
    free(disk->is_touched);
    free(disk->lost);
    free(disk->versions);
}

void disk_fill(struct disk *disk, size_t offset, const void *bytes, size_t count)
{
    assert(disk->version_count == 0 && offset + count <= disk->size);
    memcpy(disk->cache + offset, bytes, count);
    memcpy(disk->device + offset, bytes, count);
    memcpy(disk->stable + offset, bytes, count);
    memcpy(disk->view + offset, bytes, count);
}

void disk_resize(struct disk *disk, size_t size)
{
    struct disk old = *disk;

    assert(old.version_count == 0 && old.lost_count == 0 && old.touched_count == 0);
    disk_init(disk, old.name, size);
    disk_fill(disk, 0, old.stable, size < old.size ? size : old.size);
    disk->sequence = old.sequence;
    disk_destroy(&old);
}

/* The cache's content of a sector is on its way to the device. */
static void push_version(struct disk *disk, uint32_t sector, bool whole)
{
    const uint8_t *bytes = disk->cache + (size_t)sector * DISK_SECTOR;
    struct disk_version *version;

    if (disk->version_count == disk->version_room) {
        disk->version_room = disk->version_room == 0 ? 64 : 2 * disk->version_room;
        disk->versions =
            memory_resize(disk->versions, disk->version_room * sizeof(*disk->versions));
    }
    version = &disk->versions[disk->version_count++];
    version->sequence = disk->sequence++;
    version->sector = sector;
    version->older = disk->newest[sector];
    version->whole = whole;
    version->bypass = disk->bypass;
    memcpy(version->bytes, bytes, DISK_SECTOR);
    if (disk->newest[sector] == DISK_STABLE)
        disk->pending[disk->pending_count++] = sector;
    disk->newest[sector] = disk->version_count;
    memcpy(disk->device + (size_t)sector * DISK_SECTOR, bytes, DISK_SECTOR);
    if (disk->lost[sector]) { /* the page is dirty again, with all that it shows */
        disk->lost[sector] = false;
        disk->lost_count--;
    }
}

static void push_range(struct disk *disk, size_t offset, size_t count)
{
    size_t end = offset + count;

    for (size_t sector = offset / DISK_SECTOR; sector * DISK_SECTOR < end; sector++) {
        size_t from = sector * DISK_SECTOR, to = from + DISK_SECTOR;
        push_version(disk, sector, from >= offset && (to <= end || end == disk->size));
    }
}

void disk_write(struct disk *disk, size_t offset, const void *bytes, size_t count)
{
    assert(count > 0 && offset + count <= disk->size);
    memcpy(disk->cache + offset, bytes, count);
    push_range(disk, offset, count);
}

void disk_zero(struct disk *disk, size_t offset, size_t count)
{
    assert(count > 0 && offset + count <= disk->size);
    memset(disk->cache + offset, 0, count);
    push_range(disk, offset, count);
}

void disk_read(const struct disk *disk, size_t offset, void *bytes, size_t count)
{
    assert(offset + count <= disk->size);
    memcpy(bytes, disk->cache + offset, count);
}

uint64_t disk_barrier_begin(const struct disk *disk)
{
    return disk->sequence;
}

/* Drops the versions below `covered` from the log and links what stays. */
static void forget_covered(struct disk *disk, uint64_t covered)
{
    size_t kept = 0;

    for (size_t i = 0; i < disk->pending_count; i++)
        disk->newest[disk->pending[i]] = DISK_STABLE;
    disk->pending_count = 0;
    for (size_t i = 0; i < disk->version_count; i++) {
        struct disk_version *version = &disk->versions[i];
        uint32_t sector = version->sector;

        if (version->sequence < covered)
            continue;
        if (kept != i)
            disk->versions[kept] = *version;
        disk->versions[kept].older = disk->newest[sector];
        if (disk->newest[sector] == DISK_STABLE)
            disk->pending[disk->pending_count++] = sector;
        disk->newest[sector] = ++kept;
    }
    disk->version_count = kept;
}

static void settle(struct disk *disk, const struct disk_version *version)
{
    size_t at = (size_t)version->sector * DISK_SECTOR;

    memcpy(disk->stable + at, version->bytes, DISK_SECTOR);
    memcpy(disk->view + at, version->bytes, DISK_SECTOR);
}

void disk_barrier_end(struct disk *disk, uint64_t covered)
{
    assert(disk->touched_count == 0);
    for (size_t i = 0; i < disk->version_count; i++) {
        if (disk->versions[i].sequence < covered)
            settle(disk, &disk->versions[i]);
    }
    forget_covered(disk, covered);
}

void disk_barrier_fail(struct disk *disk, uint64_t covered, struct rng *rng)
{
    uint32_t *sectors = memory_get((disk->pending_count + 1) * sizeof(*sectors));
    size_t count = disk->pending_count;

    assert(disk->touched_count == 0);
    memcpy(sectors, disk->pending, count * sizeof(*sectors));
    for (size_t i = 0; i < disk->version_count; i++) {
        if (disk->versions[i].sequence < covered && rng_chance(rng, 40))
            settle(disk, &disk->versions[i]);
    }
    forget_covered(disk, covered);
    for (size_t i = 0; i < count; i++) {
        uint32_t sector = sectors[i];
        size_t at = (size_t)sector * DISK_SECTOR;

        if (disk->newest[sector] != DISK_STABLE)
            continue; /* dirty: written again since */
        memcpy(disk->device + at, disk->stable + at, DISK_SECTOR);
        if (!disk->lost[sector]) {
            disk->lost[sector] = true;
            disk->lost_count++;
        }
    }
    free(sectors);
}

void disk_drop_cache(struct disk *disk)
{
    if (disk->lost_count == 0)
        return;
    for (size_t sector = 0; sector < disk->sectors; sector++) {
        size_t at = sector * DISK_SECTOR;

        if (!disk->lost[sector])
            continue;
        memcpy(disk->cache + at, disk->device + at, DISK_SECTOR);
        disk->lost[sector] = false;
    }
    disk->lost_count = 0;
}

static void view_mark(struct disk *disk, uint32_t sector, uint32_t choice)
{
    if (!disk->is_touched[sector]) {
        disk->is_touched[sector] = true;
        disk->touched[disk->touched_count++] = sector;
    }
    disk->choice[sector] = choice;
}

void disk_view_set(struct disk *disk, uint32_t sector, uint32_t choice)
{
    size_t at = (size_t)sector * DISK_SECTOR;
    const uint8_t *bytes;

    if (disk->choice[sector] == choice)
        return;
    if (choice == DISK_STABLE) {
        bytes = disk->stable + at;
    } else {
        assert(disk->versions[choice - 1].sector == sector);
        bytes = disk->versions[choice - 1].bytes;
    }
    memcpy(disk->view + at, bytes, DISK_SECTOR);
    view_mark(disk, sector, choice);
}

static void noise(uint8_t *at, size_t count, struct rng *rng)
{
    for (size_t i = 0; i < count; i++)
        at[i] = rng_next(rng);
}

void disk_view_scribble(struct disk *disk, uint32_t sector, struct rng *rng)
{
    uint8_t *at = disk->view + (size_t)sector * DISK_SECTOR;
    const uint8_t *old = disk->stable + (size_t)sector * DISK_SECTOR, *new = old;
    size_t cut = rng_range(rng, 1, DISK_SECTOR - 1), piece = 8 << rng_below(rng, 3);

    if (disk->newest[sector] != DISK_STABLE)
        new = disk->versions[disk->newest[sector] - 1].bytes;
    switch (rng_below(rng, 6)) {
    case 0:
        memset(at, 0, DISK_SECTOR);
        break;
    case 1:
        noise(at, DISK_SECTOR, rng);
        break;
    case 2: /* it came so far */
        memcpy(at, new, cut);
        memcpy(at + cut, old + cut, DISK_SECTOR - cut);
        break;
    case 3:
        memcpy(at, old, cut);
        memcpy(at + cut, new + cut, DISK_SECTOR - cut);
        break;
    default: /* all but a few bytes */
        memcpy(at, new, DISK_SECTOR);
        cut = cut / piece * piece;
        if (rng_chance(rng, 50))
            memcpy(at + cut, old + cut, piece);
        else
            noise(at + cut, piece, rng);
    }
    view_mark(disk, sector, DISK_SCRIBBLED);
}

void disk_view_reset(struct disk *disk)
{
    for (size_t i = 0; i < disk->touched_count; i++) {
        size_t at = (size_t)disk->touched[i] * DISK_SECTOR;

        memcpy(disk->view + at, disk->stable + at, DISK_SECTOR);
        disk->choice[disk->touched[i]] = DISK_STABLE;
        disk->is_touched[disk->touched[i]] = false;
    }
    disk->touched_count = 0;
}

void disk_power_cut(struct disk *disk)
{
    size_t bytes = disk->sectors * DISK_SECTOR;

    memcpy(disk->stable, disk->view, bytes);
    memcpy(disk->device, disk->view, bytes);
    memcpy(disk->cache, disk->view, bytes);
    for (size_t i = 0; i < disk->pending_count; i++)
        disk->newest[disk->pending[i]] = DISK_STABLE;
    for (size_t i = 0; i < disk->touched_count; i++) {
        disk->choice[disk->touched[i]] = DISK_STABLE;
        disk->is_touched[disk->touched[i]] = false;
    }
    memset(disk->lost, 0, disk->sectors * sizeof(*disk->lost));
    disk->pending_count = disk->touched_count = disk->lost_count = disk->version_count = 0;
}
