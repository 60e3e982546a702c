#!/usr/bin/python3
"""The image on another file system than the journal: one without direct I/O, one that copies on write, one with
large extents, one in another process without extended attributes."""
import places

places.requires("nbdfuse")
for kind in ("tmpfs", "btrfs", "xfs"):
    there = places.FileSystem(kind)
    image = there.file("disk.img", (16 << 20) + 777)
    places.live_through(places.server(image=image, journal=there.directory + ".journal"))
size = (16 << 20) + 777
there = places.Fuse(size)
places.live_through(places.server(image=there.file, journal=there.directory + ".journal"))
