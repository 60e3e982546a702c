#!/usr/bin/python3
"""The blocksize filter: small requests become read-modify-write of ours, large ones are split."""
import harness

harness.requires_filter("blocksize")
server = harness.Server("16M", filters=["blocksize"],
                        parameters=["minblock=4096", "maxdata=64K", "maxlen=128K"])
disk = harness.Disk(server)
# The filter drops the ends of a trim that are no whole blocks.
disk.survive(kinds="wwwwwwFzZfr")
for offset in range(0, disk.size, 1 << 20):
    disk.trim(offset, 256 << 10)
disk.check("trimmed")
server.stop()
disk.check_file(server.image, when="image after a clean stop")
