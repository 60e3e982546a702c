#!/usr/bin/python3
"""nbdkit -r: what the journal holds is shown, writes are refused, and nothing at all is modified."""
import hashlib
import os

import harness


def state(server):
    files = []
    for file in server.image, server.journal:
        with open(file, "rb") as data:
            files.append((hashlib.sha256(data.read()).hexdigest(), os.stat(file).st_mtime_ns))
    return files, os.listxattr(server.image), sorted(os.listdir(harness.directory))


server = harness.Server("8M")
disk = harness.Disk(server)
disk.churn(100)
server.kill()

server.options = ["-r"]
before = state(server)
server.start()
disk.check("read-only, dirty journal")
handle = server.connect()
harness.expect(handle.is_read_only(), "not read-only")
harness.expect_error("EPERM", handle.pwrite, b"x" * 512, 0)
harness.expect_error("EPERM", handle.zero, 512, 0)
harness.expect_error("EPERM", handle.trim, 512, 0)
disk.check("after refused writes")
server.stop()
after = state(server)
harness.expect([f[0] for f in before[0]] == [f[0] for f in after[0]], "bytes changed")
harness.expect([f[1] for f in before[0]] == [f[1] for f in after[0]], "times of change changed")
harness.expect(before[1] == after[1], "marks changed:", before[1], after[1])

server.options = []
server.start()
disk.check("writable again")
disk.churn(50)
server.stop()
disk.check_file(server.image, when="image after a clean stop")
