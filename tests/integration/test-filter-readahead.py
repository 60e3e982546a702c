#!/usr/bin/python3
"""The readahead filter: our .cache is called and never makes a read return old bytes."""
import harness

harness.requires_filter("readahead")
server = harness.Server("16M", filters=["readahead"])
disk = harness.Disk(server)
disk.churn(100)
handle = server.connect()
for _ in range(2):
    for offset in range(0, disk.size, 65536):
        disk.compare(handle.pread(65536, offset), offset, "sequential read")
        # Ahead of the reader: what was fetched for it is old by now.
        ahead = (offset + 3 * 65536) % disk.size
        disk.write(ahead + 100, b"%16d" % offset)
disk.survive(80)
server.stop()
disk.check_file(server.image, when="image after a clean stop")
