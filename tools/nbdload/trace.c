/* trace: reading the log.  See trace.h. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "trace.h"

#define MAGIC_REQUEST 0x25609513u
#define MAGIC_ABOUT 0x25609514u
#define MAGIC_REPLY 0x67446698u
#define MAGIC_STRUCTURED 0x668e33efu

#define REQUEST_BYTES 28
#define REPLY_BYTES 16
#define STRUCTURED_BYTES 20

#define ABOUT_DATALOG 1
#define ABOUT_MARK 0x4a93ba39a54f31b6u

#define STRUCTURED_DONE 1u /* flag: the last reply to this request */

struct reader {
    struct trace *trace;
    const char *path;
    size_t position;
    size_t room;
    bool with_data;
    unsigned in_flight;
};

static uint16_t get16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return be32toh(value);
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return be64toh(value);
}

static int complain(const struct reader *r, const char *what)
{
    fprintf(stderr, "nbdload: trace %s: at byte %zu: %s\n", r->path, r->position, what);
    return -1;
}

static int record_add(struct reader *r, const struct trace_record *record)
{
    struct trace *t = r->trace;

    if (t->count == r->room) {
        size_t room = r->room == 0 ? 1024 : 2 * r->room;
        void *more = realloc(t->records, room * sizeof *t->records);

        if (more == NULL)
            return complain(r, "out of memory");
        t->records = more;
        r->room = room;
    }
    t->records[t->count++] = *record;
    return 0;
}

static int read_request(struct reader *r, const uint8_t *p, size_t left)
{
    struct trace *t = r->trace;
    struct trace_record record = {.flags = get16(p + 4),
                                  .cookie = get64(p + 8),
                                  .offset = get64(p + 16),
                                  .length = get32(p + 24)};
    uint64_t bytes = REQUEST_BYTES;
    bool has_range = true, has_buffer = false;

    switch (get16(p + 6)) {
    case 0:
        record.kind = TRACE_READ;
        has_buffer = true;
        break;
    case 1:
        record.kind = TRACE_WRITE;
        has_buffer = true;
        if (r->with_data) {
            record.data = p + REQUEST_BYTES;
            bytes += record.length;
        }
        break;
    case 3:
        record.kind = TRACE_FLUSH;
        has_range = false;
        break;
    case 4:
        record.kind = TRACE_TRIM;
        break;
    case 6:
        record.kind = TRACE_ZERO;
        break;
    default: /* a disconnect, or what moves no data */
        r->position += bytes;
        return 0;
    }
    if (bytes > left)
        return complain(r, "the data of a write is cut off");
    if (has_range && (record.length == 0 || record.offset + record.length < record.offset)) {
        r->position += bytes; /* never was a valid request */
        return 0;
    }
    if (has_buffer && record.length > SIZE_MAX_BYTES)
        return complain(r, "a request is too long");
    if (has_buffer && record.length > t->length_max)
        t->length_max = record.length;
    if (has_range && record.offset + record.length > t->end)
        t->end = record.offset + record.length;
    if (has_range && record.offset < t->begin)
        t->begin = record.offset;
    if (has_range && record.kind != TRACE_READ && (record.offset | record.length) % SECTOR != 0)
        t->aligned = false;
    t->requests++;
    if (++r->in_flight > t->in_flight)
        t->in_flight = r->in_flight;
    r->position += bytes;
    return record_add(r, &record);
}

/* The newest request with this cookie that has no reply yet.  Bounded: a log that was
 * written by many connections at once may hold replies of requests that are not in it. */
#define REPLY_SEARCH 4096

static int read_reply(struct reader *r, uint64_t cookie)
{
    struct trace *t = r->trace;
    struct trace_record record = {.kind = TRACE_REPLY, .cookie = cookie};

    for (size_t i = t->count; i > 0 && t->count - i < REPLY_SEARCH; i--) {
        const struct trace_record *other = &t->records[i - 1];
        if (other->cookie != cookie)
            continue;
        if (other->kind == TRACE_REPLY)
            return 0;
        record.request = i - 1;
        r->in_flight--;
        return record_add(r, &record);
    }
    return 0;
}

static int read_record(struct reader *r)
{
    const uint8_t *p = (const uint8_t *)r->trace->map + r->position;
    size_t left = r->trace->map_bytes - r->position, bytes;
    uint32_t magic = left >= 4 ? get32(p) : 0;

    bytes = magic == MAGIC_REPLY        ? REPLY_BYTES
            : magic == MAGIC_STRUCTURED ? STRUCTURED_BYTES
                                        : REQUEST_BYTES;
    if (magic != MAGIC_REQUEST && magic != MAGIC_ABOUT && magic != MAGIC_REPLY &&
        magic != MAGIC_STRUCTURED)
        return complain(r, "no record of nbd-server's transaction log begins there");
    if (left < bytes)
        return complain(r, "the last record is cut off");
    switch (magic) {
    case MAGIC_REQUEST:
        return read_request(r, p, left);
    case MAGIC_ABOUT:
        if (get32(p + 4) == ABOUT_DATALOG && get64(p + 16) == ABOUT_MARK)
            r->with_data = get32(p + 24) != 0;
        r->position += bytes;
        return 0;
    case MAGIC_STRUCTURED:
        r->position += bytes;
        return get16(p + 4) & STRUCTURED_DONE ? read_reply(r, get64(p + 8)) : 0;
    default:
        r->position += bytes;
        return read_reply(r, get64(p + 8));
    }
}

int trace_open(struct trace *trace, const char *path)
{
    struct reader reader = {.trace = trace, .path = path};
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    *trace = (struct trace){.aligned = true, .begin = UINT64_MAX};
    if (fd < 0 || fstat(fd, &file) < 0) {
        fprintf(stderr, "nbdload: trace %s: %s\n", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    trace->map_bytes = file.st_size;
    if (file.st_size > 0)
        trace->map = mmap(NULL, file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (trace->map == MAP_FAILED) {
        fprintf(stderr, "nbdload: trace %s: %s\n", path, strerror(errno));
        trace->map = NULL;
        return -1;
    }
    while (reader.position < trace->map_bytes) {
        if (read_record(&reader) < 0) {
            trace_close(trace);
            return -1;
        }
    }
    if (trace->begin > trace->end) /* nothing but flushes */
        trace->begin = trace->end;
    if (trace->requests == 0) {
        complain(&reader, "there is no request in it");
        trace_close(trace);
        return -1;
    }
    return 0;
}

void trace_close(struct trace *trace)
{
    free(trace->records);
    if (trace->map != NULL)
        munmap(trace->map, trace->map_bytes);
    *trace = (struct trace){0};
}
