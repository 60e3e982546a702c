#!/usr/bin/python3
"""A disk of 20 GiB is discarded, zeroed and formatted as a whole: that takes no more space than what was
written, before a kill -9, after it, and in the image in the end."""
import os

import attached
import harness

attached.requires()
for program in ("blkdiscard", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mkswap", "nbdinfo"):
    harness.requires_program(program)
server = harness.Server("20G", parameters=["journal-size=64M"])
disk = attached.Disk(server)
LIMIT = 256 << 20


def crash():
    server.kill()
    disk.drop()
    server.start()
    disk.attach()


def small(when):
    used = os.stat(server.image).st_blocks * 512
    harness.expect(used < LIMIT, f"{when}: the image takes {used >> 20} MiB")


disk.attach()
MAKERS = (
    (["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=1"], ["e2fsck", "-fn"]),
    (["mkfs.ext4", "-q", "-F", "-E", "nodiscard"], ["e2fsck", "-fn"]),
    (["mkfs.xfs", "-q", "-f"], ["xfs_repair", "-n"]),
    (["mkfs.btrfs", "-q", "-f"], ["btrfs", "check", "--readonly"]),
    (["mkswap"], ["swaplabel"]),
)
for make, check in MAKERS:
    attached.run(*make, disk.device)
    attached.run(*check, disk.device)
    crash()
    attached.run(*check, disk.device)
    small(" ".join(make))
for wipe in (["blkdiscard", "-f"], ["blkdiscard", "-f", "-z"]):
    attached.run("mkfs.ext4", "-q", "-F", disk.device)
    attached.run(*wipe, disk.device)
    crash()
    # Nothing of the file system is left.
    totals = attached.run("nbdinfo", "--map", "--totals", server.uri).split()
    harness.expect(totals[0] == str(20 << 30) and "zero" in totals[-1], f"after {' '.join(wipe)}:", totals)
    with open(disk.device, "rb") as device:
        harness.expect(device.read(16 << 20) == bytes(16 << 20), f"something is left after {' '.join(wipe)}")
    small(" ".join(wipe))
disk.detach()
server.stop()
small("after the stop")
