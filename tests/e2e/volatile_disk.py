"""A plugin for nbdkit-python-plugin: a disk with a write cache that is lost with the power.

    nbdkit python volatile_disk.py dir=DIR

DIR/now is what the disk shows, DIR/stable what it has safe, DIR/cached the writes that lie between:
its test decides, after it has killed the server, which of their sectors the disk has saved (see
power.py).
"""
import os
import struct

import nbdkit

API_VERSION = 2
RECORD = struct.Struct("<QQ")  # offset, length; then the bytes
files = {}


def config(key, value):
    if key != "dir":
        raise RuntimeError(f"unknown parameter {key}")
    for name in ("now", "stable", "cached"):
        files[name] = os.open(os.path.join(value, name), os.O_RDWR | os.O_CREAT, 0o600)


def thread_model():
    return nbdkit.THREAD_MODEL_SERIALIZE_ALL_REQUESTS


def open(readonly):
    return 1


def get_size(handle):
    return os.fstat(files["now"]).st_size


def can_write(handle):
    return True


def can_flush(handle):
    return True


def can_multi_conn(handle):
    return True


def pread(handle, buffer, offset, flags):
    buffer[:] = os.pread(files["now"], len(buffer), offset)


def pwrite(handle, buffer, offset, flags):
    data = bytes(buffer)
    # One call, so that a kill does not cut it in two.
    os.write(files["cached"], RECORD.pack(offset, len(data)) + data)
    os.pwrite(files["now"], data, offset)


def cached_writes(fd):
    os.lseek(fd, 0, os.SEEK_SET)
    while header := os.read(fd, RECORD.size):
        offset, length = RECORD.unpack(header)
        yield offset, os.read(fd, length)


def flush(handle, flags):
    for offset, data in cached_writes(files["cached"]):
        os.pwrite(files["stable"], data, offset)
    os.ftruncate(files["cached"], 0)
    os.lseek(files["cached"], 0, os.SEEK_SET)
