#!/usr/bin/python3
"""Cuts the power at every flush that the kernel has seen.

  log_writes.py LOG DATA-BYTES MODEL-BYTES POINTS SEED

LOG is what the kernel's dm-log-writes wrote about a device that holds an ext4 with our disk.img and its
journal: every write, in the order of completion, with flushes between them. A mark "step-N" stands where
the guest had got the answer to its flush of step N (see steps()). The device is made again up to each of
POINTS places, mounted, and recovered by nbdjournal: the disk must be as after some prefix of the requests,
with all steps that were marked.
"""
import os
import random
import struct
import subprocess
import sys

MAGIC = 0x6a736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
NBDJOURNAL = os.path.join(os.environ.get("JOURNAL_BUILD", "build"), "tools/nbdjournal/nbdjournal")
BLOCK = 4096
SPAN = 512  # blocks that the steps write to


def steps(count):
    """The requests of each step, as the guest sends them one after the other: (block, blocks, byte)."""
    for step in range(1, count + 1):
        requests = []
        for part in range(3):
            length = (step + part) % 5 + 1
            block = (step * 37 + part * 101) % (SPAN - 8)
            requests.append((block, length, 1 + (step * 3 + part) % 255))
        if step % 4 == 0:  # the last one is a trim
            requests[2] = (requests[2][0], 8, 0)
        yield requests


def entries(log):
    """(flags, sector, data) of each, sectors of 512 bytes."""
    magic, version, count, sector_bytes = struct.unpack("<QQQI", log.read(28))
    assert (magic, version) == (MAGIC, 1), "no log of dm-log-writes"
    at = sector_bytes
    for _ in range(count):
        log.seek(at)
        sector, sectors, flags, data_bytes = struct.unpack("<QQQQ", log.read(32))
        at += sector_bytes
        if flags & MARK:
            yield flags, 0, log.read(data_bytes).rstrip(b"\0")
            continue
        sector, size = sector * sector_bytes // 512, sectors * sector_bytes
        if flags & DISCARD:
            yield flags, sector, size
            continue
        log.seek(at)
        at += size
        yield flags, sector, log.read(size)


def run(*command, status=(0,)):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode not in status:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")
    return done.returncode


class Disk:
    """What the image may be after each request."""

    def __init__(self, count, size):
        states = [bytearray(size)]
        self.requests = []
        for requests in steps(count):
            for block, blocks, byte in requests:
                state = bytearray(states[-1])
                state[block * BLOCK:(block + blocks) * BLOCK] = bytes([byte]) * (blocks * BLOCK)
                states.append(state)
        self.states = [bytes(state) for state in states]

    def check(self, found, marked, place):
        for number in range(3 * marked, len(self.states)):
            if self.states[number] == found:
                return number
        sys.exit(f"{place}: the disk is not as after any of the requests from {3 * marked} on")


def check_point(data, disk, marked, place):
    # Each time another file: a loop device goes away some time after its umount, and a mount of the same
    # file meanwhile would find that one, with the blocks that it remembers.
    device = f"device-{place.split(',')[0].replace(' ', '-')}"
    run("cp", "--sparse=always", data, device)
    run("mount", "-o", "loop", device, "mounted")
    try:
        image, journal = "mounted/disk.img", "mounted/disk.img.journal"
        dirty = run(NBDJOURNAL, "check", journal, image, status=(0, 1))
        run(NBDJOURNAL, "replay", journal, image)
        with open(image, "rb") as file:
            return disk.check(file.read(), marked, place), dirty
    finally:
        run("umount", "mounted")
        os.unlink(device)


def main():
    log_path, data_bytes, model_bytes, points, seed = sys.argv[1], *map(int, sys.argv[2:])
    with open(log_path, "rb") as log:
        marks = [data for flags, _, data in entries(log) if flags & MARK]
    count = sum(mark.startswith(b"step-") for mark in marks)
    if marks[:1] != [b"begin"] or count < 10:
        sys.exit(f"there are too few marks: {marks}")
    disk = Disk(count, model_bytes)
    os.mkdir("mounted")
    checked = dirty = beyond = places = 0
    marked = -1  # the files are not there yet
    with open(log_path, "rb") as log, open("data", "w+b", buffering=0) as data:
        data.truncate(data_bytes)
        total = sum(1 for _ in entries(log))
        log.seek(0)
        rng = random.Random(seed)
        chosen = set(rng.sample(range(total), min(points, total)))
        for number, (flags, sector, what) in enumerate(entries(log)):
            if flags & MARK:
                marked = 0 if what == b"begin" else marked + 1
            elif flags & DISCARD:
                for at in range(0, what, 1 << 20):
                    os.pwrite(data.fileno(), bytes(min(1 << 20, what - at)), sector * 512 + at)
            elif what:
                os.pwrite(data.fileno(), what, sector * 512)
            places += 1
            if marked >= 0 and number in chosen:
                kept, was_dirty = check_point("data", disk, marked, f"entry {number}, {marked} steps marked")
                checked += 1
                dirty += was_dirty
                beyond += kept > 3 * marked
    print(f"power cut at {checked} of {places} places, {count} steps; {dirty} journals needed replay, "
          f"{beyond} had more than was flushed")
    if checked < points // 2 or not dirty:
        sys.exit("that is too little to say anything")


if __name__ == "__main__":
    main()
