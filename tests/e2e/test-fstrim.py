#!/usr/bin/python3
"""fstrim gives the space of deleted files back to the file system under the image, also across a kill -9;
what was not deleted stays."""
import os

import attached
import harness

attached.requires()
harness.requires_program("mkfs.ext4")
server = harness.Server("512M", parameters=["journal-size=16M"])
disk = attached.Disk(server)
disk.attach()
attached.run("mkfs.ext4", "-q", disk.device)
disk.mount()


def write(name, mebibytes):
    data = os.urandom(1 << 20) * mebibytes
    with open(os.path.join(disk.mnt, name), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return data


def used():
    return os.stat(server.image).st_blocks * 512


kept = write("kept", 3)
for number in range(4):
    write(f"deleted{number}", 40)
attached.eventually("the journal is brought home", lambda: used() > 120 << 20)
for number in range(4):
    os.unlink(os.path.join(disk.mnt, f"deleted{number}"))
attached.run("sync", "-f", disk.mnt)
attached.run("fstrim", disk.mnt)
attached.run("sync", "-f", disk.mnt)
server.kill()
disk.drop()
server.start()
disk.attach()
disk.mount()
with open(os.path.join(disk.mnt, "kept"), "rb") as file:
    harness.expect(file.read() == kept, "a file that was not deleted is not right")
disk.umount()
attached.run("e2fsck", "-fn", disk.device)
disk.detach()
server.stop()
harness.expect(used() < 40 << 20, f"the image still takes {used() >> 20} MiB")
attached.run("e2fsck", "-fn", server.image)
