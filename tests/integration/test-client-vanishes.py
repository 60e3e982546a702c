#!/usr/bin/python3
"""P9: clients that go away with requests in flight, or in the middle of a payload: the half of a write is never
seen, others are not disturbed, and no descriptor or thread is left."""
import os
import socket
import struct
import time

import harness

READ, WRITE = 0, 1
server = harness.Server("16M")
other = harness.Disk(server, largest=64 << 10)
other.churn(20)


def request(kind, cookie, offset, length, flags=0):
    return struct.pack(">IHHQQI", 0x25609513, flags, kind, cookie, offset, length)


def raw_client():
    """A socket behind a handshake that libnbd made."""
    handle = server.connect()
    return handle, socket.socket(fileno=os.dup(handle.aio_get_fd()))


def reset(raw):
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


def half_a_payload():
    handle, raw = raw_client()
    raw.sendall(request(WRITE, 1, 1 << 20, 65536) + b"!" * 32768)
    raw.shutdown(socket.SHUT_RDWR)
    reset(raw)


def no_payload():
    handle, raw = raw_client()
    raw.sendall(request(WRITE, 1, 1 << 20, 8 << 20))
    reset(raw)


def replies_unread():
    handle, raw = raw_client()
    # One request only: nbdkit 1.32 aborts, with any plugin, when a third thread replies to a
    # connection that is gone (mended by its commit 9d82aa4f).
    raw.sendall(request(READ, 1, 0, 1 << 20))
    raw.shutdown(socket.SHUT_RDWR)
    reset(raw)


def half_a_header():
    handle, raw = raw_client()
    raw.sendall(request(WRITE, 1, 1 << 20, 512)[:13])
    reset(raw)


def used():
    return len(os.listdir(f"/proc/{server.pid}/fd")), len(os.listdir(f"/proc/{server.pid}/task"))


before = used()
for round in range(30):
    for vanish in half_a_payload, no_payload, replies_unread, half_a_header:
        vanish()
        # Only the churning connection, which is the first, stays.
        del server.handles[1:]
        other.churn(2)
other.check("others")
other.compare(other.handle.pread(65536, 1 << 20), 1 << 20, "half a payload")
for _ in range(400):
    if used() <= before:
        break
    time.sleep(0.05)
harness.expect(used() <= before, "descriptors and threads:", before, "before,", used(), "after")
server.kill()
server.start()
other.check("after kill -9")
server.stop()
