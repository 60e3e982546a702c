"""A served disk as a block device of this machine: nbdfuse and a loop device, with a file system on it.

    disk = attached.Disk(server)
    disk.attach()
    attached.run("mkfs.ext4", "-q", disk.device)
    disk.mount("-o", "discard")
    ...
    server.kill()
    disk.drop()

nbdfuse sends the loop device's flushes as NBD flushes, its discards as trims.  When the server dies,
nbdfuse aborts or answers with errors; what stood on it has to go before it can be attached again.
"""
import atexit
import fcntl
import os
import subprocess
import time

import harness

LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81  # linux/loop.h
LOW_SLOT = 1000


def requires():
    """Skips the test where such a thing can't be built."""
    if os.geteuid() != 0:
        harness.skip("needs root")
    for program in ("nbdfuse", "losetup", "mount"):
        harness.requires_program(program)
    if not os.path.exists("/dev/fuse"):
        harness.skip("no /dev/fuse")
    if subprocess.run(["losetup", "-f"], capture_output=True).returncode != 0:
        harness.skip("no loop device")


def run(*command, status=(0,)):
    """Runs a program to its end, returns what it says; it must end with one of these codes."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    harness.expect(done.returncode in status, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def try_to(*command):
    """The same, but it may fail: True when it did not."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def eventually(what, condition):
    """Polls.  The bound only ends a hang."""
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.025)
    raise AssertionError(f"never happened: {what}")


class Disk:
    def __init__(self, server, name="disk"):
        """server: what has a uri."""
        self.server = server
        self.fuse = harness.path(f"{name}.fuse")
        self.mnt = harness.path(f"{name}.mnt")
        os.makedirs(self.fuse, exist_ok=True)
        os.makedirs(self.mnt, exist_ok=True)
        self.process = None
        self.device = None
        self.slot = None
        # Runs before the harness ends the server and removes the directory.
        atexit.register(self.drop)

    def attach(self):
        file, ready = os.path.join(self.fuse, "disk"), self.fuse + ".pid"
        if os.path.exists(ready):
            os.unlink(ready)
        with open(harness.log, "ab") as out:
            self.process = subprocess.Popen(["nbdfuse", "-P", ready, file, self.server.uri],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        eventually("nbdfuse is ready", lambda: os.path.exists(ready) or self.process.poll() is not None)
        if self.slot is None:
            self.device = run("losetup", "-f", "--show", file).strip()
        else:
            run("losetup", self.slot, file)
            self.device = self.slot

    def always_the_same_device(self):
        """As a disk in its slot.  The lowest free loop device may be another one each time."""
        with open("/dev/loop-control") as control:
            for number in range(LOW_SLOT, LOW_SLOT + 1000):
                try:
                    fcntl.ioctl(control, LOOP_CTL_ADD, number)
                    break
                except FileExistsError:
                    pass
        self.slot = f"/dev/loop{number}"
        atexit.register(self._leave_slot, number)
        atexit.register(self.drop)

    @staticmethod
    def _leave_slot(number):
        with open("/dev/loop-control") as control:
            fcntl.ioctl(control, LOOP_CTL_REMOVE, number)

    def mount(self, *options):
        run("mount", *options, self.device, self.mnt)

    def umount(self):
        run("umount", self.mnt)

    def detach(self):
        """The clean way, nothing mounted: every program must be content."""
        run("losetup", "-d", self.device)
        eventually(f"{self.device} is free", self._is_free)
        self.device = None
        # The kernel may still be closing the file behind the loop device.
        eventually("nbdfuse's mount is free", lambda: try_to("umount", self.fuse))
        harness.expect(self.process.wait() == 0, "nbdfuse failed")
        self.process = None

    def _is_free(self):
        return not run("losetup", "-n", "-O", "NAME", "-j", os.path.join(self.fuse, "disk")).strip()

    def drop(self):
        """After the server's death, and whatever else went wrong: nothing is left that knows the old disk."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        while try_to("umount", "-l", self.mnt):
            pass
        if self.device is not None:
            try_to("losetup", "-d", self.device)
            # A file system that is going away still holds it, and must not meet its successor.
            eventually(f"{self.device} is free", self._is_free)
            self.device = None
        while try_to("umount", "-l", self.fuse):
            pass
        if self.process is not None:
            self.process.wait()
            self.process = None
