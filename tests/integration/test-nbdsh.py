#!/usr/bin/python3
"""Each request of the protocol does what it says, and refuses nothing that is legal."""
import nbd

import harness

server = harness.Server("1M")
handle = server.connect()

handle.pwrite(b"a" * 65536, 0)
handle.pwrite(b"b" * 10, 5)
harness.expect(handle.pread(20, 0) == b"a" * 5 + b"b" * 10 + b"a" * 5, "write in the middle")

handle.zero(100, 1000)
harness.expect(handle.pread(102, 999) == b"a" + bytes(100) + b"a", "zero")
handle.zero(4096, 8192, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
harness.expect(handle.pread(4098, 8191) == b"a" + bytes(4096) + b"a", "zero without a hole")
handle.trim(4096, 16384, nbd.CMD_FLAG_FUA)
harness.expect(handle.pread(4098, 16383) == b"a" + bytes(4096) + b"a", "trim")
handle.trim(3, 101)
harness.expect(handle.pread(5, 100) == b"a" + bytes(3) + b"a", "trim of three bytes")
handle.zero(4096, 32768, nbd.CMD_FLAG_FAST_ZERO)
harness.expect(handle.pread(4098, 32767) == b"a" + bytes(4096) + b"a", "fast zero")

handle.cache(65536, 0)
handle.flush()
handle.flush()
handle.pwrite(b"z", (1 << 20) - 1, nbd.CMD_FLAG_FUA)
harness.expect(handle.pread(1, (1 << 20) - 1) == b"z", "last byte")
handle.trim(1 << 20, 0)
harness.expect(handle.pread(1 << 20, 0) == bytes(1 << 20), "trim of the whole disk")
server.stop()
with open(server.image, "rb") as image:
    harness.expect(image.read() == bytes(1 << 20), "image after a clean stop")
