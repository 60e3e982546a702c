#!/usr/bin/python3
"""Each pattern sends what its name says, and the result counts just that."""
import os

import harness
import liar
import nbdload

READ, WRITE, FLUSH, FUA = liar.READ, liar.WRITE, liar.FLUSH, 1


def sent(*options):
    """The requests in the order in which the server saw them, and the result."""
    server = liar.Liar("1M")
    told = nbdload.run("--json", *options, server.uri, expect=nbdload.DONE).json()
    server.listener.close()
    os.unlink(server.path)
    harness.expect(told["sent"] == told["answered"] == len(server.log), told, len(server.log))
    return [(r[0], r[1]) for r in server.log], server.log, told


def count(requests, command, flags=0):
    return requests.count((command, flags))


requests, log, told = sent("--pattern", "flush", "--count", 50)
harness.expect(requests == [(WRITE, 0), (FLUSH, 0)] * 50, requests)
harness.expect(told["operation"]["count"] == 50 and "final_flush" not in told, told)

requests, log, told = sent("--pattern", "fua", "--count", 50, "--clients", 2)
harness.expect(requests == [(WRITE, FUA)] * 100, requests)

requests, log, told = sent("--pattern", "async", "--flush-every", 10, "--count", 45)
harness.expect(requests == (([(WRITE, 0)] * 10 + [(FLUSH, 0)]) * 5)[:-6] + [(FLUSH, 0)], requests)
harness.expect(told["final_flush"]["count"] == 1, told)

requests, log, told = sent("--pattern", "mixed", "--read-percent", 25, "--flush-every", 0, "--count", 400)
harness.expect(60 < count(requests, READ) < 140 and count(requests, FLUSH) == 1, requests)
harness.expect(told["requests"]["read"]["count"] == count(requests, READ), told)

requests, log, told = sent("--pattern", "read", "--count", 50)
harness.expect(requests == [(READ, 0)] * 50, requests)

requests, log, told = sent("--pattern", "flush-only", "--count", 50)
harness.expect(requests == [(FLUSH, 0)] * 50, requests)

# Sequential: one stream a client, each in its part, and once more from its beginning.
requests, log, told = sent("--pattern", "seq", "--block-size", "64k", "--clients", 2, "--count", 10)
writes = [offset for command, _, offset, _ in log if command == WRITE]
low = [offset for offset in writes if offset < 512 << 10]
high = [offset - (512 << 10) for offset in writes if offset >= 512 << 10]
stream = [n * (64 << 10) for n in range(8)] + [0, 64 << 10]
harness.expect(low == stream and high == stream, low, high)

requests, log, told = sent("--pattern", "seq", "--block-size", "64k", "--flush-every", 4, "--count", 10)
harness.expect(requests == ([(WRITE, 0)] * 4 + [(FLUSH, 0)]) * 2 + [(WRITE, 0)] * 2 + [(FLUSH, 0)], requests)

# The flushes come when all writes of all clients are answered, one a connection.
requests, log, told = sent("--pattern", "final-flush", "--clients", 3, "--connections", 2, "--count", 40)
harness.expect(requests == [(WRITE, 0)] * 120 + [(FLUSH, 0)] * 6, requests)
harness.expect(told["final_flush"]["count"] == 6 and told["total_seconds"] > told["seconds"], told)

# Sizes, alignment, range.
requests, log, told = sent("--pattern", "fua", "--block-size", "512:3,8k", "--align", "512", "--range", "64k-128k",
                           "--count", 400)
sizes = [length for _, _, _, length in log]
harness.expect(set(sizes) == {512, 8192} and sizes.count(512) > sizes.count(8192), sizes)
harness.expect(all(offset % 512 == 0 and offset >= 65536 and offset + length <= 131072
                   for _, _, offset, length in log), log)
harness.expect(any(offset % 8192 != 0 for _, _, offset, length in log if length == 8192), log)

# The same seed, the same requests; another seed, others.
one = sent("--pattern", "fua", "--count", 30, "--seed", 5)[1]
harness.expect(sent("--pattern", "fua", "--count", 30, "--seed", 5)[1] == one)
harness.expect(sent("--pattern", "fua", "--count", 30, "--seed", 6)[1] != one)
