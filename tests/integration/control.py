"""For tests of control=SOCKET: asks a server, as nbdjournal does."""
import json
import os
import socket
import subprocess

import harness

NBDJOURNAL = harness.NBDJOURNAL
# What is only unpacked: Prometheus.
os.environ["PATH"] += os.pathsep + os.path.join(harness.SOURCE, "build-deps/usr/bin")


def path():
    return harness.path("control.sock")


def server(*args, parameters=(), **kwargs):
    """One that answers on path()."""
    return harness.Server(*args, parameters=[f"control={path()}", *parameters], **kwargs)


def connect(timeout=60):
    """The bound only ends a hang."""
    s = socket.socket(socket.AF_UNIX)
    s.connect(path())  # while it has no timeout: else a long queue is an error
    s.settimeout(timeout)
    return s


def line(s):
    """The next answer; None at the end."""
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = s.recv(1 << 16)
        if not piece:
            harness.expect(not data, "half an answer:", data[-100:])
            return None
        data += piece
    harness.expect(data.count(b"\n") == 1, "more than one answer")
    return json.loads(data)


def ask(request=b'{"command": "stats"}\n'):
    with connect() as s:
        s.sendall(request)
        return line(s)


def tool(*arguments, status=0):
    """What nbdjournal prints."""
    done = subprocess.run([NBDJOURNAL, *arguments], capture_output=True, text=True)
    harness.expect(done.returncode == status, arguments, "ended with", done.returncode, done.stderr)
    return done.stdout if status == 0 else done.stderr
