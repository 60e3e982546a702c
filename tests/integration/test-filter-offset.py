#!/usr/bin/python3
"""The offset filter: a window of the disk, and nothing outside of it changes."""
import harness

harness.requires_filter("offset")
base, length = 1048576 + 512, 2097152 + 1536
server = harness.Server("8M", start=False)
with open(server.image, "wb") as image:
    image.write(b"\x5a" * (8 << 20))
server.filters = ["offset"]
server.parameters = [f"offset={base}", f"range={length}"]
server.start()
disk = harness.Disk(server)
harness.expect(disk.size == length, "size", disk.size)
disk.survive()
server.stop()
disk.check_file(server.image, base, "image after a clean stop")
with open(server.image, "rb") as image:
    data = image.read()
outside = data[:base] + data[base + length:]
harness.expect(outside == b"\x5a" * len(outside), "bytes outside of the window changed")
