/* scan: brings the ring of a real journal to the core's recovery, and says what was found.
 *
 * Past the page cache, in large pieces, one after the other: a piece is read, then its
 * checksums
 * are computed.  Checking runs at many times the speed of a disk, so overlapping the two would
 * gain little.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attach.h"
#include "report.h"

#define PIECE_BYTES (4u << 20)
#define ALIGN 4096u
#define PROGRESS_NS (100 * 1000000ull)

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static uint64_t file_offset(const struct superblock *sb, uint64_t position)
{
    return sb->ring_start + position % sb->ring_bytes;
}

/* Reads count bytes of the ring from `position` on and gives them to the core.  They begin and
 * end on sectors, which may be smaller than what direct reads are aligned to. */
static int read_piece(const struct journal_file *jf, struct recovery *r, uint8_t *buf,
                      uint64_t position, size_t count)
{
    uint64_t offset = file_offset(&jf->sb, position);
    uint64_t start = offset / ALIGN * ALIGN;
    uint64_t end = (offset + count + ALIGN - 1) / ALIGN * ALIGN;
    int e;

    if (end > jf->storage->size)
        end = jf->storage->size;
    e = storage_read_cold(jf->storage, buf, end - start, start);
    if (e < 0) {
        report_error("can't read %zu bytes at %" PRIu64 " of journal %s: %s", count, offset,
                     jf->storage->name, strerror(-e));
        return e;
    }
    return recovery_feed(r, buf + (offset - start), count);
}

int journal_recover(const struct journal_file *jf, struct core *core, uint64_t to_lsn,
                    recovery_visit *visit, void *opaque,
                    void (*progress)(void *opaque, uint64_t done, uint64_t total),
                    struct recovery_result *result)
{
    struct recovery *r;
    uint8_t *buf;
    uint64_t position, done = 0, said = monotonic_ns();
    size_t count;
    int e;

    if (posix_memalign((void **)&buf, ALIGN, PIECE_BYTES + 2 * ALIGN) != 0)
        return -ENOMEM;
    e = recovery_create(&r, core, to_lsn, visit, opaque);
    if (e < 0) {
        free(buf);
        return e;
    }
    while (e == 0 && recovery_next(r, PIECE_BYTES, &position, &count)) {
        e = read_piece(jf, r, buf, position, count);
        done += count;
        if (progress != NULL && monotonic_ns() - said >= PROGRESS_NS) {
            said = monotonic_ns();
            progress(opaque, done < jf->sb.ring_bytes ? done : jf->sb.ring_bytes,
                     jf->sb.ring_bytes);
        }
    }
    recovery_finish(r, result);
    free(buf);
    return e;
}

void journal_report_damage(const struct journal_file *jf, const struct recovery_result *result)
{
    const char *name = jf->storage->name;

    report_error(
        "journal %s is damaged: the record behind lsn %" PRIu64 ", at byte %" PRIu64
        ", does not prove itself, but the one at byte %" PRIu64
        " says that all up to lsn %" PRIu64
        " was durable; nothing was changed.  Copy journal and image away before anything "
        "else.  Then bring home what is whole: nbdjournal replay %s --to %" PRIu64,
        name, result->cut.lsn, file_offset(&jf->sb, result->lost_position),
        file_offset(&jf->sb, result->witness_position), result->durable_seen, name,
        result->cut.lsn);
}
