#!/usr/bin/python3
"""The log filter sees every request that reaches us, and nothing else changes."""
import nbd

import harness

harness.requires_filter("log")
log = harness.path("requests")
server = harness.Server("4M", filters=["log"], parameters=[f"logfile={log}", "logappend=true"])
handle = server.connect()
handle.pwrite(b"a" * 512, 1024, nbd.CMD_FLAG_FUA)
handle.zero(4096, 8192)
handle.trim(4096, 16384)
handle.flush()
handle.pread(512, 1024)
disk = harness.Disk(server)
disk.survive(80)
server.stop()
disk.check_file(server.image, when="image after a clean stop")
with open(log) as lines:
    text = lines.read()
for request in ("Write id=1 offset=0x400 count=0x200 fua=1", "Zero id=2 offset=0x2000 count=0x1000",
                "Trim id=3 offset=0x4000 count=0x1000", "Flush id=4", "Read id=5 offset=0x400 count=0x200"):
    harness.expect(request in text, f"'{request}' is not in the log")
harness.expect("return=-1" not in text, "a request failed")
