"""A machine whose power can be cut: two disks with volatile caches, one for the image, one for the journal.

    machine = power.FileMachine(seed)
    machine.new_image("8M")
    machine.server.start()
    timer = machine.cut_after(0.5)
    machine.until_cut(work)
    timer.join()
    machine.boot_again()
    machine.server.start()

A flush of one disk does nothing for the other.  Of each sector that was written and not flushed since, a
disk has the newest version after a cut, an older one, or none.  The server finds another boot id then,
and an empty /dev/shm.
"""
import atexit
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


def requires():
    attached.requires()
    if subprocess.run(["nbdkit", "python", "--dump-plugin"], capture_output=True).returncode != 0:
        harness.skip("nbdkit has no python plugin")


class VolatileDisk:
    """See volatile_disk.py."""

    def __init__(self, name, size, sector):
        self.directory = harness.path(name)
        self.socket = harness.path(f"{name}.sock")
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.sector = sector
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
                for at in range(0, len(data), self.sector):
                    versions.setdefault(offset + at, []).append(data[at:at + self.sector])
        # Nothing of the cache, all of it, or a mixture.
        saved = rng.choice((0, 1, 0.03, 0.5, 0.97, 0.995))
        with open(self.file("stable"), "r+b") as stable:
            for offset, data in versions.items():
                if rng.random() < saved:
                    stable.seek(offset)
                    stable.write(data[-1] if rng.random() < 0.8 else rng.choice(data))
        os.truncate(self.file("cached"), 0)
        attached.run("cp", "--sparse=always", self.file("stable"), self.file("now"))


class Machine:
    def __init__(self, seed, image_size, journal_size, sector, parameters):
        requires()
        self.random = random.Random(seed)
        self.volatile = [VolatileDisk("image", image_size, sector), VolatileDisk("journal", journal_size, sector)]
        self.disks = [attached.Disk(volatile, os.path.basename(volatile.directory) + "-disk")
                      for volatile in self.volatile]
        self.boot_id = harness.path("boot_id")
        self.plug_in()
        self._power_on()
        self.server = harness.Server(None, start=False)
        # First of all at the end of a failed test: it holds the disks.
        atexit.register(self._kill_server)
        self.server.image, self.server.journal = self.prepare()
        self.server.parameters = [f"journal={self.server.journal}", *parameters]
        self.server.wrapper = [
            "unshare", "-m", "sh", "-ec", f"mount --bind {self.boot_id} /proc/sys/kernel/random/boot_id; "
            'mount -t tmpfs -o size=64M none /dev/shm; exec "$@"', "sh"]

    def _kill_server(self):
        if self.server.process is not None:
            self.server.process.kill()
            self.server.process.wait()
            self.server.process = None

    def plug_in(self):
        pass

    def prepare(self):
        """Makes what image and journal live on, returns their paths."""
        raise NotImplementedError

    def mount(self):
        pass

    def umount(self):
        pass

    def _power_on(self):
        with open(self.boot_id, "w") as file:
            file.write(f"{uuid.uuid4()}\n")
        for volatile, disk in zip(self.volatile, self.disks):
            volatile.start()
            disk.attach()

    def run(self, *command, status=(0,)):
        """A program of this boot."""
        return attached.run(*self.server.wrapper, *command, status=status)

    def cut(self):
        # The power goes for all at once; from now on the disks can't do anything.
        for volatile in self.random.sample(self.volatile, 2):
            volatile.process.send_signal(signal.SIGKILL)
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
            # The disks are the first to go, but they may be the last that are seen to.
            for _ in range(40):
                if any(volatile.process.poll() is not None for volatile in self.volatile):
                    return
                time.sleep(0.05)
            raise AssertionError("failed without a cut") from error

    def boot_again(self):
        if self.server.process is not None:
            self.server.process.wait()
            self.server.process = None
        self.server.handles = []
        for volatile, disk in zip(self.volatile, self.disks):
            volatile.kill()
            disk.drop()
            volatile.lose_cache(self.random)
        self._power_on()
        self.mount()

    def shut_down(self):
        """The clean way, when the server was stopped."""
        self.umount()
        for volatile, disk in zip(self.volatile, self.disks):
            disk.detach()
            volatile.kill()


class FileMachine(Machine):
    """Image and journal are files on an ext4 each, which expects that sectors are not torn."""

    def __init__(self, seed, parameters=()):
        super().__init__(seed, 64 << 20, 32 << 20, 4096, parameters)

    def prepare(self):
        for disk in self.disks:
            attached.run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", disk.device)
        self.mount()
        return [os.path.join(disk.mnt, name) for disk, name in zip(self.disks, ("disk.img", "journal"))]

    def mount(self):
        for disk in self.disks:
            disk.mount()

    def umount(self):
        for disk in self.disks:
            disk.umount()

    def new_image(self, size):
        for file in (self.server.image, self.server.journal):
            if os.path.exists(file):
                os.unlink(file)
        with open(self.server.image, "wb") as file:
            file.truncate(harness.bytes_of(size))
        self.sync()

    def sync(self):
        for disk in self.disks:
            attached.run("sync", "-f", disk.mnt)


class DeviceMachine(Machine):
    """Image and journal are block devices, torn at 512 bytes."""

    def __init__(self, seed, parameters=()):
        super().__init__(seed, 16 << 20, 2 << 20, 512, parameters)

    def plug_in(self):
        # A loop device is known by its number alone.
        for disk in self.disks:
            disk.always_the_same_device()

    def prepare(self):
        image, journal = (disk.device for disk in self.disks)
        attached.run(harness.NBDJOURNAL, "create", journal)
        return image, journal
