#!/usr/bin/python3
"""The limit filter: a client too many is refused and disturbs nobody."""
import time

import nbd

import harness

harness.requires_filter("limit")
server = harness.Server("4M", filters=["limit"], parameters=["limit=1"])
disk = harness.Disk(server)
disk.churn(30)
for _ in range(5):
    try:
        server.connect()
    except nbd.Error:
        continue
    raise AssertionError("a second client was let in")
disk.churn(30)
disk.check()
server.kill()
server.start()
disk.check("after kill -9")

# The place becomes free again.
disk.handle.shutdown()
server.handles.remove(disk.handle)
for _ in range(200):
    try:
        server.connect()
        break
    except nbd.Error:
        time.sleep(0.05)
else:
    raise AssertionError("the place did not become free")
disk.handle = server.handles[-1]
disk.check("second client")
server.stop()
