#!/usr/bin/python3
"""P4 with a kernel's own EIO: a file system whose disk fails for a moment.  The first fdatasync there says so,
the second one says that all is well, the page cache shows what was written, and the disk has none of it.
Through the page cache and with direct I/O; under the journal, and under the image.
"""
import os
import subprocess

import nbd

import attached
import harness

attached.requires()
harness.requires_filter("error")

# No room for the newest records in shared memory: then the journal is written through the page cache.
NO_STAGING = ["unshare", "-m", "sh", "-ec", 'mount -t tmpfs -o size=64K none /dev/shm; exec "$@"', "sh"]
# ext4 must not commit its own log just while the disk fails: it would go read-only for good.
MOUNT = ["-o", "noatime,commit=300"]
BLOCK = 16384  # below what goes straight to the image


class BadDisk:
    """While the file `trip` is there, writes to it fail."""

    def __init__(self, name):
        self.trip, socket = harness.path(f"{name}.trip"), harness.path(f"{name}.sock")
        self.uri = f"nbd+unix:///?socket={socket}"
        with open(harness.log, "ab") as out:
            self.server = subprocess.Popen(
                ["nbdkit", "-f", "-U", socket, "--filter=error", "memory", "64M", "error-pwrite=EIO",
                 "error-pwrite-rate=100%", f"error-pwrite-file={self.trip}"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        attached.eventually("the disk is there", lambda: os.path.exists(socket))
        self.disk = attached.Disk(self, name)
        self.disk.attach()
        attached.run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", self.disk.device)
        self.disk.mount(*MOUNT)

    def fail(self):
        with open(self.trip, "w"):
            pass

    def heal(self):
        if os.path.exists(self.trip):
            os.unlink(self.trip)

    def forget_cache(self):
        self.disk.umount()
        self.disk.mount(*MOUNT)

    def gave_up(self):
        """Its file system has become read-only: the failure met its own log."""
        try:
            with open(os.path.join(self.disk.mnt, "probe"), "w"):
                return False
        except OSError:
            return True

    def end(self):
        self.disk.umount()
        self.disk.detach()
        self.server.terminate()
        self.server.wait()


def pattern(number):
    return bytes([number]) * BLOCK


def kernel_lies():
    """What this test is about: if this kernel behaves otherwise, it proves nothing."""
    bad = BadDisk("lies")
    path = os.path.join(bad.disk.mnt, "file")
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    os.pwrite(fd, b"o" * BLOCK, 0)
    os.fsync(fd)
    os.pwrite(fd, b"n" * BLOCK, 0)
    bad.fail()
    try:
        os.fdatasync(fd)
        failed = False
    except OSError:
        failed = True
    bad.heal()
    os.fdatasync(fd)
    harness.expect(failed, "the first fdatasync did not fail")
    harness.expect(os.pread(fd, 1, 0) == b"n", "the page cache does not show what was written")
    os.close(fd)
    bad.forget_cache()
    with open(path, "rb") as file:
        harness.expect(file.read(1) == b"o", "the disk has what failed")
    bad.end()


def refuses_everything(server):
    for _ in range(2):
        handle = server.connect()
        harness.expect_error("EIO", handle.pwrite, b"x" * 512, 0)
        harness.expect_error("EIO", handle.pwrite, b"x" * 512, 0, nbd.CMD_FLAG_FUA)
        harness.expect_error("EIO", handle.flush)
        harness.expect(handle.pread(1, 3 * BLOCK) == b"\x03", "a read does not go on")


def under_the_journal(name, wrapper):
    bad = BadDisk(name)
    server = harness.Server("4M", parameters=["journal=" + os.path.join(bad.disk.mnt, "journal")], name=name,
                            start=False)
    server.journal = os.path.join(bad.disk.mnt, "journal")
    server.wrapper = wrapper
    server.start()
    handle = server.connect()
    for number in range(1, 9):
        handle.pwrite(pattern(number), number * BLOCK)
    handle.flush()
    handle.pwrite(pattern(99), BLOCK)
    bad.fail()
    try:
        handle.flush()
        answered = True
    except nbd.Error:
        answered = False
    bad.heal()
    harness.expect(not answered, "a flush was answered with success though the disk took nothing")
    # The second fdatasync would succeed now: it must not be believed.
    refuses_everything(server)
    server.kill()
    bad.forget_cache()
    server.start()
    handle = server.connect()
    for number in range(2, 9):
        harness.expect(handle.pread(BLOCK, number * BLOCK) == pattern(number), f"block {number} is lost")
    harness.expect(handle.pread(BLOCK, BLOCK) in (pattern(1), pattern(99)), "block 1 is neither old nor new")
    handle.pwrite(pattern(77), 0, nbd.CMD_FLAG_FUA)
    server.stop()
    bad.end()


def churn_one(disk):
    """Until the image is tried again a full journal makes writers fail, cleanly."""
    try:
        disk.churn(1)
    except nbd.Error:
        return False
    return True


def under_the_image(name):
    """What the image lost is still in the journal, and is written again until it is there.  False: this time
    the file system gave up.
    """
    bad = BadDisk(name)
    server = harness.Server(None, parameters=["commit-interval=0.1"], name=name, start=False)
    server.image = os.path.join(bad.disk.mnt, "disk.img")
    server.journal = harness.path(f"{name}.journal")
    server.parameters += [f"journal={server.journal}", "journal-size=1M", "data=journal"]
    with open(server.image, "wb") as image:
        image.truncate(8 << 20)
    server.start()
    disk = harness.Disk(server, largest=32 << 10)
    disk.churn(200)
    bad.fail()
    for number in range(4):
        disk.write(number * 4096, bytes([number + 1]) * 4096, nbd.CMD_FLAG_FUA)
    bad.heal()
    for _ in range(400):  # several times around the journal
        attached.eventually("it goes on", lambda: bad.gave_up() or churn_one(disk))
    if bad.gave_up():
        server.kill()
        bad.disk.drop()
        bad.server.kill()
        return False
    disk.check("after the image has failed")
    server.kill()
    bad.forget_cache()
    server.start()
    disk.check("after kill -9")
    server.stop()
    bad.forget_cache()
    disk.check_file(server.image)
    bad.end()
    return True


kernel_lies()
under_the_journal("cached", NO_STAGING)
under_the_journal("direct", [])
harness.expect(any(under_the_image(f"image{attempt}") for attempt in range(5)), "ext4 gave up each time")
