/* trace: the log of requests and replies that nbd-server (transactionlog, datalog) and
 * nbdjournal dump --datalog write, replayed.
 *
 * Big-endian, one after another:
 *
 *      25609513  request: 2 flags, 2 command, 8 cookie, 8 offset, 4 length; after a write
 *                its data, when the log says that it has them
 *      67446698  reply: 4 error, 8 cookie
 *      668e33ef  structured reply: 2 flags, 2 type, 8 cookie, 4 length (without its payload)
 *      25609514  what follows about the log: laid out as a request; command 1 with offset
 *                4a93ba39a54f31b6: data of writes follow, if length is not 0
 *
 * There are no times in it.  What the log does tell is order: a request whose record stands
 * behind a reply was sent when that reply was known, and the replay keeps that.  So it has
 * the same requests in flight together as the original had, as fast as the server allows.
 */
#ifndef NBDLOAD_TRACE_H
#define NBDLOAD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind { TRACE_READ, TRACE_WRITE, TRACE_FLUSH, TRACE_TRIM, TRACE_ZERO, TRACE_REPLY };

struct trace_record {
    enum trace_kind kind;
    uint32_t flags; /* the request's, as on the wire */
    uint32_t length;
    uint64_t offset;
    uint64_t cookie;
    size_t request;   /* of a reply: the record of its request */
    const void *data; /* of a write; null: not in the log */
};

struct trace {
    struct trace_record *records;
    size_t count;
    size_t requests;
    unsigned in_flight;  /* at most, in the original */
    uint32_t length_max; /* of reads and writes */
    uint64_t begin, end; /* of the bytes that its requests are for */
    bool aligned;        /* all writes, trims and zeroes are whole sectors */
    void *map;           /* the file */
    size_t map_bytes;
};

/* -1: reported. */
int trace_open(struct trace *trace, const char *path);
void trace_close(struct trace *trace);

#endif
