/* verify: reading the disks and judging what is there.  See verify.h. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <libnbd.h>

#include "exit_code.h"
#include "options.h"
#include "timers.h"
#include "verify.h"

#define READ_BYTES (1u << 20)

/* A request that left a trace on the disk. */
struct trace {
    uint64_t sequence, start;
    uint32_t length;
};

struct scan {
    struct ledger_disk *disk;
    const char *uri;
    const struct verify_options *options;
    struct verification *result;
    uint64_t *found; /* version of each sector; 0: not one of ours */
    struct trace *traces;
    size_t trace_count, trace_room;
    uint64_t newest_present; /* of the requests that keep P2 */
};

/* ---- the server ---- */

/* Lets libnbd work for a while.  False: the connection is gone, or the server stalls. */
static bool disk_wait(struct nbd_handle *nbd, uint64_t deadline_ns)
{
    if (nbd_aio_is_dead(nbd) || nbd_aio_is_closed(nbd) || nbd_poll(nbd, 500) < 0)
        return false;
    return deadline_ns == 0 || clock_ns() < deadline_ns;
}

static uint64_t deadline(uint64_t stall_ns)
{
    return stall_ns == 0 ? 0 : clock_ns() + stall_ns;
}

static void complain(const char *uri)
{
    const char *why = nbd_get_error();
    fprintf(stderr, "nbdload: %s: %s\n", uri, why != NULL ? why : "no answer");
}

static bool disk_become_ready(struct nbd_handle *nbd, uint64_t stall_ns)
{
    uint64_t deadline_ns = deadline(stall_ns);

    while (!nbd_aio_is_ready(nbd)) {
        if (!disk_wait(nbd, deadline_ns))
            return false;
    }
    return true;
}

static struct nbd_handle *disk_connect(const char *uri, uint64_t stall_ns)
{
    struct nbd_handle *nbd = nbd_create();

    if (nbd == NULL)
        return NULL;
    nbd_set_uri_allow_local_file(nbd, true);
    if (nbd_aio_connect_uri(nbd, uri) < 0 || !disk_become_ready(nbd, stall_ns)) {
        complain(uri);
        nbd_close(nbd);
        return NULL;
    }
    return nbd;
}

struct reading {
    bool done;
    int error;
};

static int reading_done(void *user_data, int *error)
{
    *(struct reading *)user_data = (struct reading){true, *error};
    return 1;
}

/* 0 or an exit code. */
static int disk_read(struct nbd_handle *nbd, const struct scan *scan, void *buffer,
                     uint32_t length, uint64_t offset)
{
    struct reading reading = {0};
    nbd_completion_callback done = {.callback = reading_done, .user_data = &reading};
    uint64_t deadline_ns = deadline(scan->options->stall_ns);
    bool there = nbd_aio_pread(nbd, buffer, length, offset, done, 0) >= 0;

    while (there && !reading.done)
        there = disk_wait(nbd, deadline_ns);
    if (there && reading.error == 0)
        return EXIT_DONE;
    fprintf(stderr, "nbdload: disk %" PRIu32 ": read of %" PRIu32 " bytes at %" PRIu64 ": %s\n",
            scan->disk->number, length, offset,
            reading.done ? strerror(reading.error) : "no answer");
    if (there)
        return EXIT_ERRORS;
    complain(scan->uri);
    return EXIT_GONE;
}

int verify_open(struct ledger *ledger, const char *path, char **uris, size_t count, bool create,
                uint64_t start, uint64_t end, const struct verify_options *options)
{
    struct ledger_spec *specs = calloc(count, sizeof *specs);
    int status = EXIT_DONE;

    if (specs == NULL || count > LEDGER_DISKS_MAX) {
        fprintf(stderr, "nbdload: too many disks for a ledger\n");
        free(specs);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
        struct nbd_handle *nbd = disk_connect(uris[i], options->stall_ns);
        int64_t size = nbd == NULL ? -1 : nbd_get_size(nbd);

        nbd_close(nbd);
        if (size < 0) {
            status = EXIT_GONE;
            break;
        }
        /* Only whole sectors are stamped. */
        specs[i] = (struct ledger_spec){uris[i], size, (start + SECTOR - 1) / SECTOR * SECTOR,
                                        (end != 0 ? end : (uint64_t)size) / SECTOR * SECTOR};
        if (specs[i].end > (uint64_t)size || specs[i].start >= specs[i].end) {
            fprintf(stderr, "nbdload: %s: its %" PRId64 " bytes are too few for the range\n",
                    uris[i], size);
            status = EXIT_USAGE;
        }
    }
    if (status == EXIT_DONE && ledger_open(ledger, path, specs, count, create) < 0)
        status = EXIT_USAGE;
    free(specs);
    return status;
}

/* ---- the judge ---- */

static struct violation *violation_add(struct scan *scan, enum promise promise, uint64_t sector,
                                       uint64_t from, uint64_t to, const char *what)
{
    struct verification *result = scan->result;
    struct violation *v;

    result->broken[promise]++;
    if (result->violation_count == VIOLATIONS_KEPT)
        return NULL;
    v = &result->violations[result->violation_count++];
    *v = (struct violation){
        .promise = promise,
        .disk = scan->disk->number,
        .offset = scan->disk->start + sector * SECTOR,
        .from = from,
        .to = to,
        .what = what,
    };
    return v;
}

static bool trace_add(struct scan *scan, const struct stamp *stamp)
{
    if (scan->trace_count > 0 &&
        scan->traces[scan->trace_count - 1].sequence == stamp->sequence)
        return true; /* the next sector of the same request */
    if (scan->trace_count == scan->trace_room) {
        size_t room = scan->trace_room == 0 ? 1024 : 2 * scan->trace_room;
        void *more = realloc(scan->traces, room * sizeof *scan->traces);

        if (more == NULL)
            return false;
        scan->traces = more;
        scan->trace_room = room;
    }
    scan->traces[scan->trace_count++] =
        (struct trace){stamp->sequence, stamp->start, stamp->length};
    return true;
}

/* Its own words fit the place where it was found. */
static bool stamp_fits(const struct ledger_disk *disk, const struct stamp *stamp)
{
    return stamp->length > 0 && stamp->length % SECTOR == 0 && stamp->start % SECTOR == 0 &&
           stamp->start >= disk->start && stamp->start < disk->end &&
           stamp->length <= disk->end - stamp->start && stamp->start <= stamp->sector_offset &&
           stamp->sector_offset < stamp->start + stamp->length;
}

/* One sector against its entry.  False: out of memory. */
static bool judge_sector(struct scan *scan, uint64_t sector, const uint8_t *bytes)
{
    struct ledger_disk *disk = scan->disk;
    const struct ledger_entry *entry = &disk->entries[sector];
    uint64_t flushed = ledger_flushed(disk, entry);
    uint64_t owed = scan->options->power ? flushed : entry->answered;
    uint64_t offset = disk->start + sector * SECTOR;
    struct violation *v = NULL;
    struct stamp stamp = {0};
    enum stamp_state state =
        stamp_check(bytes, ledger_id(disk->ledger), disk->number, offset, &stamp);
    bool good = state == STAMP_GOOD && stamp_fits(disk, &stamp);

    scan->result->sectors++;
    scan->found[sector] = good ? stamp.sequence : 0;
    if (scan->found[sector] < flushed)
        v = violation_add(scan, P1, sector, owed, entry->issued, "a flushed write is lost");
    else if (scan->found[sector] < owed)
        v = violation_add(scan, P0, sector, owed, entry->issued, "an answered write is lost");
    else if (state == STAMP_DAMAGED)
        v = violation_add(scan, P3, sector, owed, entry->issued, "a sector is there in part");
    else if (state == STAMP_MISPLACED || (state == STAMP_GOOD && !good))
        v = violation_add(scan, P7, sector, owed, entry->issued,
                          "the sector holds what was written elsewhere");
    else if (scan->found[sector] > entry->issued)
        v = violation_add(scan, P7, sector, owed, entry->issued,
                          "a write is back that was gone before");
    else if (scan->found[sector] < entry->answered)
        scan->result->lost++;
    else if (scan->found[sector] > entry->answered)
        scan->result->unanswered++;
    if (v != NULL)
        stamp_describe(v->found, sizeof v->found, state, &stamp, bytes);
    if (!good)
        return true;
    if (stamp.length < scan->options->atomic && stamp.sequence > scan->newest_present)
        scan->newest_present = stamp.sequence;
    return trace_add(scan, &stamp);
}

static void judge_whole(struct scan *scan)
{
    const struct ledger_disk *disk = scan->disk;

    for (size_t i = 0; i < scan->trace_count; i++) {
        const struct trace *t = &scan->traces[i];
        uint64_t first = (t->start - disk->start) / SECTOR;

        if (t->length >= scan->options->atomic)
            continue;
        for (uint64_t s = first; s < first + t->length / SECTOR; s++) {
            struct violation *v;

            if (disk->entries[s].issued == 0 || scan->found[s] >= t->sequence)
                continue;
            v = violation_add(scan, P3, s, t->sequence, disk->entries[s].issued,
                              "a request is there in part");
            if (v != NULL)
                snprintf(v->found, sizeof v->found,
                         "version %" PRIu64 "; write %" PRIu64 " (%" PRIu32 " bytes at %" PRIu64
                         ") is there elsewhere",
                         scan->found[s], t->sequence, t->length, t->start);
            break; /* one for each request */
        }
    }
}

static void judge_order(struct scan *scan, uint64_t newest_present)
{
    const struct ledger_disk *disk = scan->disk;

    for (uint64_t s = 0; s < disk->sectors; s++) {
        const struct ledger_entry *entry = &disk->entries[s];
        struct violation *v;

        if (entry->issued == 0 || scan->found[s] >= entry->answered ||
            entry->answered_at >= newest_present || entry->answered_length == 0 ||
            entry->answered_length >= scan->options->atomic)
            continue;
        v = violation_add(scan, P2, s, entry->answered, entry->issued,
                          "an answered write is lost, and a later one is there");
        if (v != NULL)
            snprintf(v->found, sizeof v->found,
                     "version %" PRIu64 "; write %" PRIu64
                     " is there, which was sent after the answer (number %" PRIu64 ")",
                     scan->found[s], newest_present, entry->answered_at);
    }
}

/* ---- the scan ---- */

static void progress(const struct scan *scan, uint64_t sector)
{
    static uint64_t last_ns;
    uint64_t now = clock_ns();

    if (scan->options->quiet || !isatty(STDERR_FILENO) || now - last_ns < 200000000u)
        return;
    last_ns = now;
    fprintf(stderr, "\rverifying disk %" PRIu32 ": %.0f%%\033[K", scan->disk->number,
            100.0 * sector / scan->disk->sectors);
}

static void progress_done(const struct scan *scan)
{
    if (!scan->options->quiet && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* Reads what the ledger knows, in large pieces. */
static int scan_read(struct scan *scan, struct nbd_handle *nbd, uint8_t *buffer)
{
    const struct ledger_disk *disk = scan->disk;

    for (uint64_t s = 0; s < disk->sectors;) {
        uint64_t end = s, stop;
        int r;

        if (disk->entries[s].issued == 0) {
            s++;
            continue;
        }
        progress(scan, s);
        /* Up to the last known sector that fits. */
        stop =
            s + READ_BYTES / SECTOR < disk->sectors ? s + READ_BYTES / SECTOR : disk->sectors;
        for (uint64_t i = s; i < stop; i++) {
            if (disk->entries[i].issued != 0)
                end = i + 1;
        }
        r = disk_read(nbd, scan, buffer, (end - s) * SECTOR, disk->start + s * SECTOR);
        if (r != 0)
            return r;
        for (uint64_t i = s; i < end; i++) {
            if (disk->entries[i].issued != 0 &&
                !judge_sector(scan, i, buffer + (i - s) * SECTOR)) {
                fprintf(stderr, "nbdload: out of memory\n");
                return EXIT_USAGE;
            }
        }
        s = end;
    }
    return 0;
}

static int scan_disk(struct scan *scan)
{
    struct nbd_handle *nbd = disk_connect(scan->uri, scan->options->stall_ns);
    uint8_t *buffer = malloc(READ_BYTES);
    int status;

    scan->found = mmap(NULL, scan->disk->sectors * sizeof *scan->found, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (scan->found == MAP_FAILED)
        scan->found = NULL;
    if (nbd == NULL) {
        status = EXIT_GONE;
    } else if (buffer == NULL || scan->found == NULL) {
        fprintf(stderr, "nbdload: out of memory\n");
        status = EXIT_USAGE;
    } else {
        status = scan_read(scan, nbd, buffer);
        progress_done(scan);
    }
    free(buffer);
    nbd_close(nbd);
    return status;
}

static int violation_compare(const void *left, const void *right)
{
    const struct violation *a = left, *b = right;

    if (a->disk != b->disk)
        return a->disk < b->disk ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->promise > b->promise) - (a->promise < b->promise);
}

static void judge_all(struct scan *scans, uint32_t count, const struct verify_options *options)
{
    uint64_t newest = 0;

    for (uint32_t i = 0; i < count; i++) {
        judge_whole(&scans[i]);
        if (scans[i].newest_present > newest)
            newest = scans[i].newest_present;
    }
    for (uint32_t i = 0; i < count && options->power; i++) {
        if (options->order != ORDER_NONE)
            judge_order(&scans[i],
                        options->order == ORDER_ALL ? newest : scans[i].newest_present);
    }
}

/* After a power cut what is lost must never come back.  After a kill it may have been this program
 * that was killed, and the server may still have requests of it (P9 is about them). */
static void settle_all(struct scan *scans, uint32_t count, const struct verify_options *options)
{
    for (uint32_t i = 0; i < count; i++) {
        struct ledger_disk *disk = scans[i].disk;

        for (uint64_t s = 0; s < disk->sectors; s++) {
            if (disk->entries[s].issued != 0)
                ledger_settle(disk, s, scans[i].found[s], options->power);
        }
    }
}

int verify_disks(struct ledger *ledger, char **uris, const struct verify_options *options,
                 struct verification *result)
{
    struct scan *scans = calloc(ledger->disk_count, sizeof *scans);
    int status = EXIT_DONE;

    *result = (struct verification){0};
    result->violations = calloc(VIOLATIONS_KEPT, sizeof *result->violations);
    if (scans == NULL || result->violations == NULL) {
        fprintf(stderr, "nbdload: out of memory\n");
        free(scans);
        return EXIT_USAGE;
    }
    snprintf(result->run_broken, sizeof result->run_broken, "%s", ledger_broken(ledger));
    for (uint32_t i = 0; i < ledger->disk_count && status == EXIT_DONE; i++) {
        scans[i] = (struct scan){
            .disk = &ledger->disks[i], .uri = uris[i], .options = options, .result = result};
        status = scan_disk(&scans[i]);
    }
    if (status == EXIT_DONE) {
        judge_all(scans, ledger->disk_count, options);
        qsort(result->violations, result->violation_count, sizeof *result->violations,
              violation_compare);
        if (verification_good(result))
            settle_all(scans, ledger->disk_count, options);
        else
            status = EXIT_BROKEN;
    }
    for (uint32_t i = 0; i < ledger->disk_count; i++) {
        if (scans[i].found != NULL)
            munmap(scans[i].found, scans[i].disk->sectors * sizeof *scans[i].found);
        free(scans[i].traces);
    }
    free(scans);
    return status;
}

bool verification_good(const struct verification *result)
{
    for (int p = 0; p < PROMISES; p++) {
        if (result->broken[p] > 0)
            return false;
    }
    return result->run_broken[0] == '\0';
}

void verification_free(struct verification *result)
{
    free(result->violations);
    result->violations = NULL;
}
