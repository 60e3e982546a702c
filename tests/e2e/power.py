"""A machine whose power can be cut: image and journal on an ext4, on a disk with a volatile cache.

    machine = power.Machine(seed)
    machine.new_image("8M")
    machine.server.start()
    timer = machine.cut_after(0.5)
    machine.until_cut(work)
    timer.join()
    machine.boot_again()
    machine.server.start()

Of each sector that was written and not flushed since, the disk has the newest version after a cut, an
older one, or none.  The server finds another boot id then, and an empty /dev/shm.
"""
import os
import random
import signal
import subprocess
import threading
import time
import uuid

import nbd

import attached
import harness

SECTOR = 512


def requires():
    attached.requires()
    harness.requires_program("mkfs.ext4")
    if subprocess.run(["nbdkit", "python", "--dump-plugin"], capture_output=True).returncode != 0:
        harness.skip("nbdkit has no python plugin")


class VolatileDisk:
    """See volatile_disk.py."""

    def __init__(self, size):
        self.directory = harness.path("volatile")
        self.socket = harness.path("volatile.sock")
        self.uri = f"nbd+unix:///?socket={self.socket}"
        os.mkdir(self.directory)
        for name in ("now", "stable", "cached"):
            with open(self.file(name), "wb") as file:
                file.truncate(0 if name == "cached" else size)
        self.process = None

    def file(self, name):
        return os.path.join(self.directory, name)

    def start(self):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        script = os.path.join(harness.SOURCE, "tests/e2e/volatile_disk.py")
        with open(harness.log, "ab") as out:
            self.process = subprocess.Popen(
                ["nbdkit", "-f", "-U", self.socket, "python", script, f"dir={self.directory}"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        attached.eventually("the disk is there", lambda: os.path.exists(self.socket))

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def lose_cache(self, rng):
        versions = {}
        with open(self.file("cached"), "rb") as cached:
            while header := cached.read(16):
                offset, length = (int.from_bytes(header[at:at + 8], "little") for at in (0, 8))
                data = cached.read(length)
                for at in range(0, len(data), SECTOR):
                    versions.setdefault(offset + at, []).append(data[at:at + SECTOR])
        # Nothing of the cache, all of it, or a mixture.
        saved = rng.choice((0, 1, 0.03, 0.5, 0.97))
        with open(self.file("stable"), "r+b") as stable:
            for offset, data in versions.items():
                if rng.random() < saved:
                    stable.seek(offset)
                    stable.write(data[-1] if rng.random() < 0.8 else rng.choice(data))
        os.truncate(self.file("cached"), 0)
        attached.run("cp", "--sparse=always", self.file("stable"), self.file("now"))


class Machine:
    def __init__(self, seed, size=128 << 20, parameters=()):
        requires()
        self.random = random.Random(seed)
        self.volatile = VolatileDisk(size)
        self.disk = attached.Disk(self.volatile)
        self.boot_id = harness.path("boot_id")
        self.server = harness.Server(None, parameters=parameters, start=False)
        self.server.image = os.path.join(self.disk.mnt, "disk.img")
        self.server.journal = self.server.image + ".journal"
        self.server.wrapper = [
            "unshare", "-m", "sh", "-ec", f"mount --bind {self.boot_id} /proc/sys/kernel/random/boot_id; "
            'mount -t tmpfs -o size=64M none /dev/shm; exec "$@"', "sh"]
        self._boot()
        attached.run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", self.disk.device)
        self.disk.mount()

    def _boot(self):
        with open(self.boot_id, "w") as file:
            file.write(f"{uuid.uuid4()}\n")
        self.volatile.start()
        self.disk.attach()

    def new_image(self, size):
        for file in (self.server.image, self.server.journal):
            if os.path.exists(file):
                os.unlink(file)
        with open(self.server.image, "wb") as file:
            file.truncate(harness.bytes_of(size))
            os.fsync(file.fileno())
        attached.run("sync", "-f", self.disk.mnt)

    def run(self, *command, status=(0,)):
        """A program of this boot."""
        return attached.run(*self.server.wrapper, *command, status=status)

    def cut(self):
        # The power goes for all at once; from now on the disk can't do anything.
        self.volatile.process.send_signal(signal.SIGKILL)
        if self.server.process is not None:
            self.server.process.kill()

    def cut_after(self, seconds):
        timer = threading.Timer(seconds, self.cut)
        timer.start()
        return timer

    def until_cut(self, action):
        """Until the action fails with the cut, or to its end."""
        try:
            action()
        except (nbd.Error, AssertionError) as error:
            # The disk is the first one to go, but it may be the last one that is seen to.
            for _ in range(40):
                if self.volatile.process.poll() is not None:
                    return
                time.sleep(0.05)
            raise AssertionError("failed without a cut") from error

    def boot_again(self):
        if self.server.process is not None:
            self.server.process.wait()
            self.server.process = None
        self.server.handles = []
        self.volatile.kill()
        self.disk.drop()
        self.volatile.lose_cache(self.random)
        self._boot()
        self.disk.mount()

    def shut_down(self):
        """The clean way, when the server was stopped."""
        self.disk.umount()
        self.disk.detach()
        self.volatile.kill()
