#!/usr/bin/python3
"""Requests that make no sense are refused one by one: the connection lives, nothing changes."""
import nbd

import harness

SIZE = 1 << 20
server = harness.Server(SIZE)
disk = harness.Disk(server)
disk.churn(30)
handle = server.connect()
ranges = [(0, 0), (0, SIZE), (1, SIZE), (4096, SIZE - 512), (4096, (1 << 63) - 2048), (4096, (1 << 64) - 2048)]
for length, offset in ranges:
    for call in (lambda: handle.pread(length, offset), lambda: handle.pwrite(b"x" * length, offset),
                 lambda: handle.trim(length, offset), lambda: handle.zero(length, offset),
                 lambda: handle.cache(length, offset),
                 lambda: handle.block_status(length, offset, lambda *_: 0)):
        try:
            call()
        except (nbd.Error, OverflowError):
            continue
        harness.expect(length == 0, f"a request of {length} bytes at {offset} succeeded")
    disk.check(f"after requests of {length} bytes at {offset}")
harness.expect(not handle.aio_is_dead(), "the connection is dead")
disk.survive(30)
server.stop()
disk.check_file(server.image, when="image after a clean stop")
