#!/usr/bin/python3
"""The truncate filter: a disk that looks larger or smaller; image and journal keep their size."""
import os

import nbd

import harness

harness.requires_filter("truncate")

# Rounded up: zeroes beyond our end, and a write there fails as a whole.
size = (1 << 20) + 511
server = harness.Server(size, filters=["truncate"], parameters=["round-up=4096"], name="up")
handle = server.connect()
harness.expect(handle.get_size() == (1 << 20) + 4096, "size", handle.get_size())
handle.pwrite(b"t" * 511, 1 << 20, nbd.CMD_FLAG_FUA)
harness.expect_error("ENOSPC", handle.pwrite, b"x" * 512, 1 << 20)
server.kill()
server.start()
handle = server.connect()
tail = handle.pread(4096, 1 << 20)
harness.expect(tail[511:] == bytes(4096 - 511), "bytes beyond the end are not zero")
server.stop()
harness.expect(os.path.getsize(server.image) == size, "the image's size changed")

# Cut: what lies beyond stays.
server = harness.Server("4M", start=False, name="cut")
with open(server.image, "r+b") as image:
    image.seek(3 << 20)
    image.write(b"\x5a" * (1 << 20))
server.filters, server.parameters = ["truncate"], [f"truncate={3 << 20}"]
server.start()
disk = harness.Disk(server)
harness.expect(disk.size == 3 << 20, "size", disk.size)
disk.survive()
server.stop()
disk.check_file(server.image, when="image after a clean stop")
with open(server.image, "rb") as image:
    image.seek(3 << 20)
    harness.expect(image.read() == b"\x5a" * (1 << 20), "bytes beyond the cut changed")
