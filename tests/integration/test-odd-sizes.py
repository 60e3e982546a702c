#!/usr/bin/python3
"""Images of any size are served to their last byte, and never grow or shrink."""
import os

import nbd

import harness

for size in 1, 2, 511, 512, 513, 4095, 4096, 4097, (1 << 20) + 1, (1 << 20) + 511:
    server = harness.Server(size, name=f"s{size}")
    handle = server.connect()
    harness.expect(handle.get_size() == size, f"size {handle.get_size()}, not {size}")
    handle.pwrite(b"e", size - 1, nbd.CMD_FLAG_FUA)
    harness.expect_error("ENOSPC", handle.pwrite, b"x" * 2, size - 1)
    disk = harness.Disk(server, seed=size)
    disk.churn(60)
    disk.write(size - 1, b"E")
    server.kill()
    server.start()
    disk.check(f"size {size}, after kill -9")
    odd = min(size, 777)
    disk.trim(size - odd, odd)
    disk.check(f"size {size}, end trimmed")
    disk.zero(size - odd, odd)
    disk.churn(20)
    server.stop()
    harness.expect(os.path.getsize(server.image) == size, f"the image has {os.path.getsize(server.image)} bytes")
    disk.check_file(server.image, when=f"size {size}, image after a clean stop")
