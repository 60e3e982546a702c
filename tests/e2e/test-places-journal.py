#!/usr/bin/python3
"""The journal on another file system than the image: one without direct I/O, one that copies on write, one
with large extents."""
import places

places.requires()
for kind in ("tmpfs", "btrfs", "xfs"):
    there = places.FileSystem(kind)
    image = places.new_file(there.directory + ".img", (16 << 20) + 777)
    places.live_through(places.server(image=image, journal=there.file("journal")))
