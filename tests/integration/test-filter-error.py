#!/usr/bin/python3
"""The error filter: a request that it fails never reaches us, all others do."""
import os

import nbd

import harness

harness.requires_filter("error")
trigger = harness.path("fail")
server = harness.Server("4M", filters=["error"],
                        parameters=["error=EIO", "error-rate=100%", f"error-file={trigger}"])
disk = harness.Disk(server)
disk.churn(50)
handle = server.connect()
open(trigger, "w").close()
for flags in 0, nbd.CMD_FLAG_FUA:
    harness.expect_error("EIO", handle.pwrite, b"x" * 4096, 8192, flags)
    harness.expect_error("EIO", handle.zero, 4096, 8192, flags)
    harness.expect_error("EIO", handle.trim, 4096, 8192, flags)
os.unlink(trigger)
disk.check("after failed requests")
disk.survive()
server.stop()
disk.check_file(server.image, when="image after a clean stop")
