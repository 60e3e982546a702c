"""For tests of the built plugin in Python: a server, its image, and a model of its disk.

    import harness
    server = harness.Server("64M")
    disk = harness.Disk(server)
    disk.churn(200)
    server.kill()
    server.start()
    disk.check()

Everything lives in a directory of its own, harness.directory, which is removed at the end, as is
every server.  A test fails with an exception; harness.skip ends it without counting as passed.
"""
import atexit
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import nbd

# JOURNAL_PLUGIN: another plugin shows what a test asks of us that others do not.
SOURCE = os.environ.get("JOURNAL_SOURCE") or os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BUILD = os.environ.get("JOURNAL_BUILD") or os.path.join(SOURCE, "build")
PLUGIN = os.environ.get("JOURNAL_PLUGIN") or os.path.join(BUILD, "plugin/nbdkit-journal-plugin.so")
NBDJOURNAL = os.path.join(BUILD, "tools/nbdjournal/nbdjournal")

os.environ["PATH"] = "/usr/bin:/usr/sbin:/sbin:" + os.environ["PATH"]
os.environ["LC_ALL"] = "C"

# Short, since a Unix socket's path has room for 107 bytes.
directory = tempfile.mkdtemp(prefix="journal-test.", dir="/tmp")
log = os.path.join(directory, "log")
_servers = []
_failed = False


def _cleanup():
    for server in _servers:
        if server.process is not None:
            server.process.kill()
            server.process.wait()
    if _failed and os.path.exists(log):
        with open(log, errors="replace") as lines:
            print("--- the servers' log:")
            sys.stdout.writelines(lines.readlines()[-60:])
    _remove_staging()
    shutil.rmtree(directory, ignore_errors=True)


def _remove_staging():
    """A killed server leaves its staging in shared memory for the next start, which never comes."""
    for where, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(where, name)
            if not os.path.isfile(path):
                continue
            with open(path, "rb") as f:
                head = f.read(32)
            if head[:8] == b"NBDKJRNL":
                staging = f"/dev/shm/nbdkit-journal-{uuid.UUID(bytes=head[16:32])}"
                if os.path.exists(staging):
                    os.unlink(staging)


def _note_failure(kind, value, trace):
    global _failed
    _failed = True
    sys.__excepthook__(kind, value, trace)


atexit.register(_cleanup)
# A test that ran out of time is ended by this signal, and must not leave a server behind.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
sys.excepthook = _note_failure


def skip(why):
    """Ends the test, not counted as passed."""
    print("skip:", why, flush=True)
    sys.exit(77)


def requires_filter(name):
    if subprocess.run(["nbdkit", "--dump-plugin", "--filter", name, "null"],
                      capture_output=True).returncode != 0:
        skip(f"nbdkit has no {name} filter")


def requires_program(name):
    if shutil.which(name) is None:
        skip(f"{name} is not installed")


def bytes_of(size):
    """64M -> 67108864"""
    if isinstance(size, int):
        return size
    scale = {"K": 10, "M": 20, "G": 30, "T": 40}.get(size[-1])
    return int(size) if scale is None else int(size[:-1]) << scale


def path(name):
    return os.path.join(directory, name)


def expect(condition, *what):
    """assert, but there with python -O as well, and with words."""
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def expect_error(errno_name, call, *args, **kwargs):
    """The call must fail with this NBD error."""
    try:
        call(*args, **kwargs)
    except nbd.Error as error:
        expect(error.errno == errno_name, f"expected {errno_name}, got {error.errno}: {error}")
        return
    raise AssertionError(f"succeeded, but must fail with {errno_name}: {call.__name__}{args}")


def retired(handle, request, answered):
    """request: (cookie, key, value) of an asynchronous one.  Notes answered[key] = value once it is answered."""
    cookie, key, value = request
    if not handle.aio_command_completed(cookie):
        return False
    answered[key] = value
    return True


class Server:
    """nbdkit with the plugin on an image.  size None: the image is there already.

    The journal is so small that it wraps within a test, unless the parameters say another size.
    """

    def __init__(self, size="64M", filters=(), options=(), parameters=(), name="disk", start=True):
        self.image = path(f"{name}.img")
        self.journal = self.image + ".journal"
        self.socket = path(f"{name}.sock")
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.filters, self.options, self.parameters = list(filters), list(options), list(parameters)
        self.serves = None  # instead of file=
        self.wrapper = []  # a command before nbdkit: strace, valgrind
        self.process = None
        self.handles = []
        if size is not None:
            with open(self.image, "wb") as image:
                image.truncate(bytes_of(size))
        _servers.append(self)
        if start:
            self.start()

    def command(self):
        command = [*self.wrapper, "nbdkit", "-f", "-P", self.socket + ".pid", "-U", self.socket]
        command += [f"--filter={f}" for f in self.filters] + self.options
        command += [PLUGIN, self.serves or f"file={self.image}", *self.parameters]
        if not any(p.startswith("journal-size=") for p in self.parameters):
            command.append("journal-size=4M")
        return command

    def start(self):
        """Returns when it listens."""
        pid_file = self.socket + ".pid"
        for left_over in (self.socket, pid_file):
            if os.path.exists(left_over):
                os.unlink(left_over)
        with open(log, "ab") as out:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        # nbdkit writes its process id when it listens.  The bound only ends a hang.
        for _ in range(2400):
            if os.path.exists(pid_file) and os.path.getsize(pid_file):
                with open(pid_file) as number:
                    self.pid = int(number.read())
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.025)
        raise AssertionError("the server did not start")

    def connect(self, export="", pick=None):
        """A libnbd handle that sends what it is told to, also nonsense."""
        handle = nbd.NBD()
        handle.set_strict_mode(0)
        handle.set_export_name(export)
        handle.add_meta_context("base:allocation")
        if pick:
            pick(handle)
        handle.connect_unix(self.socket)
        self.handles.append(handle)
        return handle

    def _drop_handles(self, polite):
        for handle in self.handles:
            try:
                if polite:
                    handle.shutdown()
            except nbd.Error:
                pass
        self.handles = []

    def kill(self):
        """The crash: nothing of the server runs afterwards."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        self._drop_handles(False)

    def stop(self):
        """The clean stop."""
        self._drop_handles(True)
        os.kill(self.pid, signal.SIGTERM)
        status = self.process.wait()
        self.process = None
        expect(status == 0, "the server ended with", status)


def random_requests(server, requests, kills, seed=1, bypass=None):
    """Many of them at a time, and kill -9 in between: tests/integration/random-requests.c.  Says how many."""
    options = {"seed": seed, "requests": requests, "kills": kills, "bypass": bypass}
    command = [os.path.join(BUILD, "tests/integration/random-requests")]
    for name, value in options.items():
        if value is not None:
            command += [f"--{name}", str(value)]
    with open(log, "ab") as out:
        done = subprocess.run([*command, server.socket, server.image, *server.command()], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=out, text=True)
    print(f"seed {seed}", *server.parameters, done.stdout, sep=" ", end="", flush=True)
    expect(done.returncode == 0, f"random-requests: JOURNAL_TEST_SEED={seed}")
    return requests


# What a churn does, as often as it is named here; see there.
KINDS = "wwwwwwFzZtfr"


class Disk:
    """What the disk must look like, byte for byte, and random requests that change both."""

    def __init__(self, server, seed=1, align=1, largest=256 << 10, base=0):
        self.server = server
        self.random = random.Random(seed)
        self.handle = None
        self.align, self.largest = align, largest
        self.size = self._handle().get_size()
        self.model = bytearray(self._read_all())

    def _handle(self):
        if self.handle is None or self.handle not in self.server.handles:
            self.handle = self.server.connect()
        return self.handle

    def _read_all(self):
        handle, out, step = self._handle(), bytearray(), 16 << 20
        for offset in range(0, self.size, step):
            out += handle.pread(min(step, self.size - offset), offset)
        return out

    def _range(self):
        """Small, large, at the edges of blocks, at the end of the disk."""
        pick = self.random.choice((1, 511, 512, 513, 4095, 4096, 4097, 65536, 65537, None, None, None))
        length = pick if pick is not None else self.random.randrange(1, self.largest + 1)
        length = min(max(self.align, length - length % self.align), self.largest, self.size)
        last = self.size - length
        offset = last if self.random.random() < 0.05 else self.random.randrange(0, last + 1)
        return offset - offset % self.align, length

    def write(self, offset, data, flags=0):
        self._handle().pwrite(data, offset, flags)
        self.model[offset:offset + len(data)] = data

    def zero(self, offset, length, flags=0):
        self._handle().zero(length, offset, flags)
        self.model[offset:offset + length] = bytes(length)

    def trim(self, offset, length, flags=0):
        self._handle().trim(length, offset, flags)
        self.model[offset:offset + length] = bytes(length)

    def flush(self):
        self._handle().flush()

    def churn(self, count, kinds=KINDS):
        """w write, F write with FUA, z zero, Z zero without a hole, t trim, f flush, r read and compare."""
        for _ in range(count):
            offset, length = self._range()
            kind = self.random.choice(kinds)
            if kind in "wF":
                self.write(offset, self.random.randbytes(length), nbd.CMD_FLAG_FUA if kind == "F" else 0)
            elif kind in "zZ":
                self.zero(offset, length, nbd.CMD_FLAG_NO_HOLE if kind == "Z" else 0)
            elif kind == "t":
                self.trim(offset, length)
            elif kind == "f":
                self.flush()
            else:
                self.compare(self._handle().pread(length, offset), offset, "read")

    def compare(self, got, offset, when):
        want = self.model[offset:offset + len(got)]
        if got != want:
            at = next(i for i in range(len(got)) if got[i] != want[i])
            raise AssertionError(f"{when}: byte {offset + at} is {got[at]:#x}, not {want[at]:#x}")

    def check(self, when="check"):
        """The whole disk equals the model."""
        expect(self._handle().get_size() == self.size, "the disk's size changed")
        self.compare(self._read_all(), 0, when)

    def check_file(self, file, offset=0, when="the file"):
        """So does a file (the image, once all is written home), from offset."""
        with open(file, "rb") as image:
            image.seek(offset)
            data = image.read(self.size)
        expect(len(data) == self.size, f"{when}: {len(data)} bytes, not {self.size}")
        self.compare(data, 0, when)

    def survive(self, count=150, kinds=KINDS):
        """Changes, a crash, more changes: the disk stays right."""
        self.churn(count, kinds)
        self.check("served")
        self.server.kill()
        self.server.start()
        self.check("after kill -9")
        self.churn(count, kinds)
        self.check("second life")
