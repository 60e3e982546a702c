/* scan: brings the ring of a real journal to the core's recovery, and says what was found.
 *
 * Past the page cache, in large pieces, one after the other.  While the core checks one piece
 * (checksums, map: 5.5 GB/s for records of 4 KiB, 1.7 for 512 bytes), a thread reads the next,
 * so a disk that reads 1 to 3 GB/s is not kept waiting.  The thread lives no longer than
 * journal_recover, and the core is only used by the caller's.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
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

/* A part of the ring in memory. */
struct piece {
    uint8_t *buf; /* PIECE_BYTES + 2 * ALIGN, aligned */
    uint64_t position;
    size_t count;
    size_t skip; /* of buf, before the byte at position */
    int error;
};

/* Reads the part that `position` and `count` say.  They lie on sectors, which may be smaller
 * than what direct reads are aligned to. */
static void piece_read(const struct journal_file *jf, struct piece *p)
{
    uint64_t offset = file_offset(&jf->sb, p->position);
    uint64_t start = offset / ALIGN * ALIGN;
    uint64_t end = (offset + p->count + ALIGN - 1) / ALIGN * ALIGN;

    if (end > jf->storage->size)
        end = jf->storage->size;
    p->skip = offset - start;
    p->error = storage_read_cold(jf->storage, p->buf, end - start, start);
}

static bool piece_covers(const struct piece *p, uint64_t position)
{
    return position >= p->position && position - p->position < p->count;
}

/* The reader: a thread and the piece that it reads.  Between `wanted` set and cleared again the
 * piece is the thread's, else the caller's. */
struct reader {
    const struct journal_file *jf;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool is_running; /* the thread exists; else all is read by the caller */
    bool wanted;     /* [lock] */
    bool stop;       /* [lock] */
    struct piece now, ahead;
};

static void *reader_run(void *opaque)
{
    struct reader *reader = opaque;

    pthread_mutex_lock(&reader->lock);
    for (;;) {
        while (!reader->wanted && !reader->stop)
            pthread_cond_wait(&reader->changed, &reader->lock);
        if (!reader->wanted)
            break;
        pthread_mutex_unlock(&reader->lock);
        piece_read(reader->jf, &reader->ahead);
        pthread_mutex_lock(&reader->lock);
        reader->wanted = false;
        pthread_cond_signal(&reader->changed);
    }
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

/* Signals are for the caller's threads. */
static int reader_start(struct reader *reader, const struct journal_file *jf)
{
    sigset_t all, old;
    struct piece *pieces[] = {&reader->now, &reader->ahead};

    *reader = (struct reader){.jf = jf};
    for (int i = 0; i < 2; i++) {
        if (posix_memalign((void **)&pieces[i]->buf, ALIGN, PIECE_BYTES + 2 * ALIGN) != 0) {
            free(reader->now.buf);
            return -ENOMEM;
        }
    }
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    reader->is_running = pthread_create(&reader->thread, NULL, reader_run, reader) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return 0;
}

static void reader_stop(struct reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    reader->stop = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    if (reader->is_running)
        pthread_join(reader->thread, NULL);
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    free(reader->now.buf);
    free(reader->ahead.buf);
}

/* Lets the thread read what follows `now`, up to the end of the ring or of all. */
static void reader_go_ahead(struct reader *reader)
{
    const struct superblock *sb = &reader->jf->sb;
    uint64_t position = reader->now.position + reader->now.count;
    uint64_t left = sb->tail.position + sb->ring_bytes - position;
    uint64_t room = sb->ring_bytes - position % sb->ring_bytes;

    if (room > left)
        room = left;
    if (!reader->is_running || room == 0)
        return;
    reader->ahead.position = position;
    reader->ahead.count = room < PIECE_BYTES ? room : PIECE_BYTES;
    pthread_mutex_lock(&reader->lock);
    reader->wanted = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
}

/* Makes `now` cover `position`, with at most count bytes from there on if it must be read. */
static int reader_take(struct reader *reader, uint64_t position, size_t count)
{
    struct piece swap = reader->now;

    if (piece_covers(&reader->now, position))
        return 0;
    pthread_mutex_lock(&reader->lock);
    while (reader->wanted)
        pthread_cond_wait(&reader->changed, &reader->lock);
    pthread_mutex_unlock(&reader->lock);
    if (piece_covers(&reader->ahead, position)) {
        reader->now = reader->ahead;
        reader->ahead = swap;
    } else {
        reader->now.position = position;
        reader->now.count = count;
        piece_read(reader->jf, &reader->now);
    }
    if (reader->now.error < 0) {
        report_error("can't read journal %s around byte %" PRIu64 ": %s",
                     reader->jf->storage->name, file_offset(&reader->jf->sb, position),
                     report_reason(-reader->now.error));
        return reader->now.error;
    }
    reader_go_ahead(reader);
    return 0;
}

/* Gives the core what it wants next.  *fed: how much that was. */
static int feed(struct reader *reader, struct recovery *r, uint64_t position, size_t count,
                size_t *fed)
{
    const struct piece *now = &reader->now;
    size_t before;
    int e = reader_take(reader, position, count);

    *fed = 0;
    if (e < 0)
        return e;
    before = position - now->position;
    *fed = now->count - before < count ? now->count - before : count;
    return recovery_feed(r, now->buf + now->skip + before, *fed);
}

int journal_recover(const struct journal_file *jf, struct core *core, uint64_t to_lsn,
                    recovery_visit *visit, void *opaque,
                    void (*progress)(void *opaque, uint64_t done, uint64_t total),
                    struct recovery_result *result)
{
    struct reader reader;
    struct recovery *r;
    uint64_t position, done = 0, said = monotonic_ns();
    size_t count, fed;
    int e = reader_start(&reader, jf);

    if (e < 0)
        return e;
    e = recovery_create(&r, core, to_lsn, visit, opaque);
    if (e < 0) {
        reader_stop(&reader);
        return e;
    }
    while (e == 0 && recovery_next(r, PIECE_BYTES, &position, &count)) {
        e = feed(&reader, r, position, count, &fed);
        done += fed;
        if (e == 0 && progress != NULL && monotonic_ns() - said >= PROGRESS_NS) {
            said = monotonic_ns();
            progress(opaque, done < jf->sb.ring_bytes ? done : jf->sb.ring_bytes,
                     jf->sb.ring_bytes);
        }
    }
    recovery_finish(r, result);
    reader_stop(&reader);
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
