#!/usr/bin/python3
"""Block status: what was trimmed or zeroed is a hole or zero at once, what was written is data, also after
kill -9; and what is called zero reads as zeroes."""
import random

import nbd

import harness


def extents(handle):
    """A list of (length, flags) for the whole disk."""
    found, offset, size = [], 0, handle.get_size()
    while offset < size:
        got = []
        handle.block_status(size - offset, offset, lambda _name, _offset, entries, _error: got.extend(entries) or 0)
        harness.expect(len(got) > 0, "no extents")
        for length, flags in zip(got[::2], got[1::2]):
            found.append((length, flags))
            offset += length
    return found


def flags_at(handle, offset):
    for length, flags in extents(handle):
        if offset < length:
            return flags
        offset -= length
    raise AssertionError("not covered")


def check_zeroes(handle, when):
    offset = 0
    for length, flags in extents(handle):
        length = min(length, handle.get_size() - offset)
        if flags & nbd.STATE_ZERO:
            for at in range(offset, offset + length, 1 << 20):
                count = min(1 << 20, offset + length - at)
                harness.expect(handle.pread(count, at) == bytes(count), f"{when}: not zero at {at}")
        offset += length


server = harness.Server("16M")
handle = server.connect()
harness.expect(flags_at(handle, 0) == nbd.STATE_HOLE | nbd.STATE_ZERO, "a new image is no hole")
handle.pwrite(b"d" * (1 << 20), 4 << 20)
harness.expect(flags_at(handle, 4 << 20) == 0, "data is not data")
harness.expect(flags_at(handle, (5 << 20) - 1) == 0, "data is not data at its end")
harness.expect(flags_at(handle, 3 << 20) & nbd.STATE_ZERO, "before data is not zero")
handle.trim(256 << 10, 4 << 20)
harness.expect(flags_at(handle, 4 << 20) & nbd.STATE_ZERO, "trimmed is not zero")
handle.zero(256 << 10, (4 << 20) + (512 << 10), nbd.CMD_FLAG_NO_HOLE)
harness.expect(flags_at(handle, (4 << 20) + (512 << 10)) & nbd.STATE_HOLE == 0, "NO_HOLE made a hole")
harness.expect(flags_at(handle, (4 << 20) + (300 << 10)) == 0, "between them is no data")
server.kill()
server.start()
handle = server.connect()
harness.expect(flags_at(handle, 4 << 20) & nbd.STATE_ZERO, "trimmed is not zero after kill -9")
harness.expect(flags_at(handle, (4 << 20) + (300 << 10)) == 0, "data is not data after kill -9")

disk = harness.Disk(server)
for step in range(10):
    disk.churn(20, "wzZt")
    check_zeroes(server.connect(), f"step {step}")
server.stop()
# Home: allocated where it must be, a hole where it may be.
disk.check_file(server.image, when="image after a clean stop")
server.start()
check_zeroes(server.connect(), "after a clean stop")
server.stop()
