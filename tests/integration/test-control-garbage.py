#!/usr/bin/python3
"""Nonsense on the control socket: each gets an error or is dropped, nobody else notices, nothing piles up (P8)."""
import json
import os
import socket
import struct
import time

import control
import harness

LINE_MAX = 4096
CONNECTIONS_MAX = 16

server = control.server("8M")
disk = harness.Disk(server)
disk.churn(30)
control.ask()


def descriptors():
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def comes_back(want):
    for _ in range(1200):
        if descriptors() <= want:
            return
        time.sleep(0.05)
    raise AssertionError(f"{descriptors()} descriptors, {want} before")


before = descriptors()

# What is no request gets an error; the connection goes on.
with control.connect() as s:
    for request in (b"", b"x", b"{", b"[]", b"1", b"null", b'"stats"', b"{}", b'{"command": 1}', b'{"command": null}',
                    b'{"command": "nonsense"}', b'{"command": "stats"', b'{"command": "stats"} x', b"\0", b"\xff\xfe",
                    b'{"command": "stats", "command": "stats"}', b"[" * 4000, b'{"a":' * 500,
                    b'{"command": "st\0ats"}', b'{"id": 5}'):
        s.sendall(request + b"\n")
        answer = control.line(s)
        harness.expect("error" in answer and "protocol" not in answer, request[:60], answer)
    s.sendall(b'{"command": "version", "id": {"any": [1]}}\n')
    answer = control.line(s)
    harness.expect(answer["id"] == {"any": [1]} and answer["pid"] == server.pid, answer)
    # In pieces, and several at once.
    for piece in (b'{"comm', b'and": "vers', b'ion"}'):
        s.sendall(piece)
        time.sleep(0.02)
    s.sendall(b"\n")
    harness.expect(control.line(s)["protocol"] == 1)
    s.sendall(b'{"command": "version"}\n' * 100)
    got = b""
    while got.count(b"\n") < 100:
        got += s.recv(1 << 16)
    harness.expect(all(json.loads(one)["protocol"] == 1 for one in got.splitlines()))

# Without a newline the end is the end of the request; nothing at all is no request.
with control.connect() as s:
    s.sendall(b'{"command": "version"}\n{"command": "version"}')
    s.shutdown(socket.SHUT_WR)
    data = b""
    while piece := s.recv(1 << 16):
        data += piece
    harness.expect(data.count(b"\n") == 2, data)
with control.connect() as s:
    s.shutdown(socket.SHUT_WR)
    harness.expect(control.line(s) is None)

# The longest request, and one that is longer: an error, and the end.
harness.expect(control.ask(b'{"command": "version"' + b" " * (LINE_MAX - 23) + b"}\n")["protocol"] == 1)
with control.connect() as s:
    s.sendall(b"x" * LINE_MAX)
    harness.expect("too long" in control.line(s)["error"])
    try:
        harness.expect(control.line(s) is None, "the connection goes on")
    except ConnectionResetError:
        pass
with control.connect() as s:
    try:
        for _ in range(10000):
            s.sendall(b"y" * 65536)
        raise AssertionError("640 MB of one line were taken")
    except (BrokenPipeError, ConnectionResetError):
        pass
comes_back(before)

# Many at once: the new ones are served, the silent ones give way.
silent = [control.connect() for _ in range(100)]
harness.expect(control.ask()["protocol"] == 1)
harness.expect(descriptors() <= before + CONNECTIONS_MAX, descriptors(), "descriptors")
for s in silent:
    s.close()
for _ in range(300):
    s = control.connect()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.sendall(b'{"command": "stats"}\n')
    s.close()
comes_back(before)

# Who asks and asks and takes no answer: his requests wait in the kernel, one answer in the server, and he is dropped.
with open(f"/proc/{server.pid}/statm") as statm:
    pages = int(statm.read().split()[1])
slow = [control.connect() for _ in range(CONNECTIONS_MAX - 2)]
for s in slow:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    s.setblocking(False)
    try:
        while True:
            s.send(b'{"command": "stats"}\n' * 100)
    except BlockingIOError:
        pass
harness.expect(control.ask()["protocol"] == 1)
disk.churn(50)
with open(f"/proc/{server.pid}/statm") as statm:
    grown = (int(statm.read().split()[1]) - pages) * 4096
harness.expect(grown < 32 << 20, grown, "bytes more")
comes_back(before)
for s in slow:
    s.close()

disk.check("after all that")
disk.churn(50)
server.kill()
server.start()
disk.check("after kill -9")
harness.expect(control.ask()["protocol"] == 1)
server.stop()
