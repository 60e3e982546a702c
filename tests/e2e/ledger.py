"""Programs that work on a file system, and a ledger of what they were promised.

Each worker makes, replaces, appends to and removes files with fsync.  The ledger says for each name
what may be found after a crash: before a change is begun, the old and the new state; after fsync has
returned, the new one alone.  The ledger is closed before the server is killed: a file system whose disk
is gone may still say yes (XFS does, when a directory is synced after its log was shut down).
"""
import hashlib
import os
import random
import threading

import harness

GONE = "gone"


def digest(data):
    return len(data), hashlib.sha256(data).hexdigest()


def sync_directory(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Ledger:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.may_be = {}  # name: states, each of them GONE or (length, sum)
        self.starts_with = {}  # name: (length, sum) of what was appended and flushed
        self.promises = 0  # how often something became certain
        self.open = True

    def _count(self):
        if not self.open:
            raise OSError("the ledger is closed")
        self.promises += 1

    def close(self):
        with self.lock:
            self.open = False

    def begin(self, name, state):
        with self.lock:
            self.may_be[name] = self.may_be.get(name, {GONE}) | {state}

    def certain(self, name, state):
        with self.lock:
            self._count()
            self.may_be[name] = {state}

    def certain_start(self, name, state):
        with self.lock:
            self._count()
            self.starts_with[name] = state

    def check(self, directory):
        """Everything that was promised is there; from now on, what is there is certain."""
        self.open = True
        for name, states in self.may_be.items():
            path = os.path.join(directory, name)
            found = GONE
            if os.path.exists(path):
                with open(path, "rb") as file:
                    found = digest(file.read())
            harness.expect(found in states, f"{name} is {found}, and not one of {states}")
            self.may_be[name] = {found}
        for name, (length, wanted) in self.starts_with.items():
            with open(os.path.join(directory, name), "rb") as file:
                found = digest(file.read(length))
            harness.expect(found == (length, wanted), f"{name} starts with {found}, and not with {(length, wanted)}")


class Worker(threading.Thread):
    """Works until the disk fails."""

    def __init__(self, ledger, directory, number):
        super().__init__()
        self.ledger, self.number = ledger, number
        self.directory = os.path.join(directory, str(number))
        self.random = random.Random(ledger.random.random())
        self.failure = None
        os.makedirs(self.directory, exist_ok=True)

    def run(self):
        try:
            while True:
                self.random.choice((self.create, self.create, self.replace, self.append, self.remove))()
        except Exception as failure:
            self.failure = failure

    def _place(self):
        """Few names, so that files come again and again, and their blocks are freed and reused."""
        return f"{self.number}/file{self.random.randrange(24)}"

    def _path(self, name):
        return os.path.join(os.path.dirname(self.directory), name)

    def _write(self, path, data, flags):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
        try:
            step = self.random.choice((4096, 10000, 1 << 20))
            for offset in range(0, len(data), step):
                os.write(fd, data[offset:offset + step])
            self.random.choice((os.fsync, os.fdatasync))(fd)
        finally:
            os.close(fd)

    def _data(self):
        return self.random.randbytes(self.random.choice((1, 100, 4096, 5000, 65536, 300000)))

    def create(self):
        """A new file under a name of its own."""
        name = f"{self.number}/new{self.random.randrange(1 << 40)}"
        data = self._data()
        self._write(self._path(name), data, os.O_EXCL)
        sync_directory(self.directory)
        self.ledger.certain(name, digest(data))
        # It takes its place among the others.
        place = self._place()
        self.ledger.begin(place, digest(data))
        self.ledger.begin(name, GONE)
        os.rename(self._path(name), self._path(place))
        sync_directory(self.directory)
        self.ledger.certain(place, digest(data))
        self.ledger.certain(name, GONE)

    def replace(self):
        """The new content comes whole, as editors do it."""
        name = self._place()
        data = self._data()
        self._write(self._path(name) + ".part", data, os.O_TRUNC)
        self.ledger.begin(name, digest(data))
        os.rename(self._path(name) + ".part", self._path(name))
        sync_directory(self.directory)
        self.ledger.certain(name, digest(data))

    def append(self):
        """A log, as databases have it."""
        name = f"{self.number}/log"
        record = self.random.randbytes(self.random.randrange(1, 9000))
        fd = os.open(self._path(name), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # What was written and not flushed before a crash is cut off, as databases do it.
            start = self.ledger.starts_with.get(name, (0, None))[0]
            os.ftruncate(fd, start)
            os.lseek(fd, 0, os.SEEK_END)
            os.write(fd, record)
            os.fsync(fd)
            if start == 0:
                sync_directory(self.directory)
            whole = os.pread(fd, start + len(record), 0)
        finally:
            os.close(fd)
        self.ledger.certain_start(name, digest(whole))

    def remove(self):
        name = self._place()
        if not os.path.exists(self._path(name)):
            return
        self.ledger.begin(name, GONE)
        os.unlink(self._path(name))
        sync_directory(self.directory)
        self.ledger.certain(name, GONE)
