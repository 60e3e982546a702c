#!/usr/bin/python3
"""Hundreds of connections, one after the other and many at once: descriptors and threads come back."""
import os
import time

import harness

server = harness.Server("8M")
disk = harness.Disk(server)


def used():
    return len(os.listdir(f"/proc/{server.pid}/fd")), len(os.listdir(f"/proc/{server.pid}/task"))


def comes_back(want):
    for _ in range(400):
        if used() <= want:
            return
        time.sleep(0.05)
    raise AssertionError(f"descriptors and threads: {want} before, {used()} after")


disk.churn(10)
before = used()
for number in range(300):
    handle = server.connect()
    handle.pwrite(b"%08d" % number, 4096)
    disk.model[4096:4104] = b"%08d" % number
    if number % 3 == 0:
        handle.flush()
    if number % 2 == 0:
        handle.shutdown()
    server.handles.remove(handle)
    del handle
comes_back(before)
many = [server.connect() for _ in range(50)]
for number, handle in enumerate(many):
    handle.pwrite(b"m" * 512, 8192 + number * 512)
disk.model[8192:8192 + 50 * 512] = b"m" * (50 * 512)
many[0].flush()
disk.check("many at once")
for handle in many:
    server.handles.remove(handle)
    handle.shutdown()
del many, handle
comes_back(before)
server.kill()
server.start()
disk.check("after kill -9")
server.stop()
