#!/usr/bin/python3
"""A log of nbd-server is replayed: its requests, its data, its order; other files are refused."""
import os
import struct

import harness
import liar
import nbdload

READ, WRITE, FLUSH, TRIM, ZERO = 0, 1, 3, 4, 6
path = harness.path("log.tr")


def request(command, cookie, offset=0, length=0, flags=0, data=b""):
    return struct.pack(">IHHQQI", 0x25609513, flags, command, cookie, offset, length) + data


def reply(cookie, error=0):
    return struct.pack(">IIQ", 0x67446698, error, cookie)


def structured_reply(cookie, last):
    return struct.pack(">IHHQI", 0x668e33ef, last, 1, cookie, 8)


WITH_DATA = struct.pack(">IIQQI", 0x25609514, 1, 0, 0x4a93ba39a54f31b6, 1)


def save(*records):
    with open(path, "wb") as log:
        log.write(b"".join(records))


def replay(*options, expect=nbdload.DONE):
    server = liar.Liar("1M")
    result = nbdload.run("--pattern", "trace", path, *options, server.uri, expect=expect)
    server.listener.close()
    os.unlink(server.path)
    return server, result


# The requests, with their flags and data; a disconnect is none of them.
save(WITH_DATA, request(WRITE, 1, 4096, 1024, data=b"a" * 1024), reply(1), request(READ, 2, 512, 512), reply(2),
     request(WRITE, 3, 0, 512, flags=1, data=b"b" * 512), reply(3), request(FLUSH, 4), reply(4), request(2, 5))
server, result = replay()
harness.expect(server.log == [(WRITE, 0, 4096, 1024), (READ, 0, 512, 512), (WRITE, 1, 0, 512), (FLUSH, 0, 0, 0)], server.log)
harness.expect(server.disk[4096:5120] == b"a" * 1024 and server.disk[:512] == b"b" * 512)

# Without data, twice, by two clients; flushed at the end, since the trace does not.
save(request(WRITE, 1, 0, 512), reply(1), request(WRITE, 1, 512, 512), reply(1))
server, result = replay("--clients", 2, "--count", 4, "--json")
harness.expect(sorted(server.log) == sorted([(WRITE, 0, 0, 512), (WRITE, 0, 512, 512)] * 4 + [(FLUSH, 0, 0, 0)] * 2), server.log)
harness.expect(result.json()["operation"]["count"] == 8, result)

# Order: what stands behind a reply is sent after it; what was in flight together still is.
together = [request(READ, n, n * 512, 512) for n in range(8)]
save(*together, structured_reply(3, 0), structured_reply(3, 1), request(WRITE, 20, 0, 512), *map(reply, (0, 1, 2, 4, 5, 6, 7)))
for seed in range(5):
    server, result = replay("--json")
    order = [r[0] for r in server.log]
    harness.expect(order.index(WRITE) > [r[2] for r in server.log].index(3 * 512), server.log)
    harness.expect(result.json()["options"]["in_flight"] == 8, result)

# With a ledger.
save(request(WRITE, 1, 0, 4096), reply(1), request(WRITE, 2, 0, 4096), request(WRITE, 3, 0, 4096), request(WRITE, 4, 2048, 4096),
     reply(2), reply(3), reply(4), request(READ, 5, 0, 8192), reply(5))
replay("--verify", harness.path("ledger"))

# Not for this disk, or no log.
save(request(WRITE, 1, 1 << 20, 512))
server, result = replay(expect=nbdload.USAGE)
harness.expect("the trace is for bytes" in result.stderr and not server.log, result)
save(request(WRITE, 1, 100, 512))
server, result = replay("--verify", harness.path("ledger2"), expect=nbdload.USAGE)
harness.expect("whole sectors" in result.stderr, result)
for content, words in ((b"", "no request"), (b"rubbish", "no record"), (request(READ, 1, 0, 512)[:-1], "cut off"),
                       (WITH_DATA + request(WRITE, 1, 0, 512, data=b"short"), "cut off"),
                       (request(WRITE, 1, 0, 1 << 31), "too long")):
    save(content)
    server, result = replay(expect=nbdload.USAGE)
    harness.expect(words in result.stderr, words, result)
