#!/usr/bin/python3
"""Requests of all alignments, byte for byte: as served, after a flush, written home, and after kill -9."""
import itertools

import harness

EDGES = (0, 1, 511, 512, 513, 4095, 4096, 4097, 65536, 65537)
server = harness.Server("1M", start=False)
with open(server.image, "wb") as image:
    image.write(b"\x21" * (1 << 20))
server.start()
disk = harness.Disk(server)
for number, (offset, length) in enumerate(itertools.product(EDGES, EDGES[1:])):
    # Somewhere else each time, so that the disk is not all zeroes soon.
    at = (number * 73 % 14) * 65536 + offset
    disk.write(at, bytes([number % 255 + 1]) * length)
    (disk.zero, disk.trim)[number % 2](at + number % 7, max(1, length // 2))
    if number % 10 == 0:
        disk.check(f"step {number}")
    if number % 25 == 0:
        disk.handle.flush()
        disk.check(f"step {number}, flushed")
        server.kill()
        server.start()
        disk.check(f"step {number}, after kill -9")
server.stop()
disk.check_file(server.image, when="written home")
server.start()
disk.churn(400, "zZt")
disk.check("zeroed and trimmed")
server.kill()
server.start()
disk.check("zeroed and trimmed, after kill -9")
server.stop()
disk.check_file(server.image, when="zeroed and trimmed, written home")
