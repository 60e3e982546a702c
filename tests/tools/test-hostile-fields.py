#!/usr/bin/python3
"""Every field of superblock, image entry and record header, set to every awkward value, with right
checksums: nbdjournal ends with 0 to 3, soon, in bounded memory, and what it refuses it leaves alone."""
import hashlib
import os
import resource
import subprocess
import tempfile

from format_tables import MAKE, TOOL, checksum, decode, table

head, _ = table("=head2 Header")
entry, _ = table("=head2 Image entry")
record, _ = table("=head2 Record header")
SANITIZED = b"__asan_init" in open(TOOL, "rb").read()


if not SANITIZED:  # which reserves terabytes
    resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))


def run(*arguments):
    return subprocess.run([TOOL, *arguments], capture_output=True, timeout=30, errors="replace")


def digest(*paths):
    return [hashlib.sha256(open(p, "rb").read()).hexdigest() for p in paths]


def awkward(old, count):
    top = (1 << 8 * count) - 1
    values = {0, 1, old + 1, old * 2, top, (top >> 1) + 1, top >> 3}
    return sorted(v for v in values if 0 <= v <= top and v != old)


def sealed_super(raw):
    image_count = int.from_bytes(raw[84:88], "little")
    covered = raw[: 4096 + 256 * min(image_count, 240)]
    covered[4088:4096] = bytes(8)
    raw[4088:4096] = checksum(int.from_bytes(raw[16:24], "little"), covered).to_bytes(8, "little")
    return raw


def variants(good):
    """(name, {offset: bytes}) of each journal to be tried."""
    current = max((0, 65536), key=lambda at: int.from_bytes(good[at + 72 : at + 80], "little"))
    for fields, base, what in ((head, 0, "superblock"), (entry, 4096, "image")):
        for offset, count, field, _ in fields:
            if field == "checksum":
                continue
            width = min(count, 8)
            old = int.from_bytes(good[current + base + offset :][:width], "little")
            for value in awkward(old, width):
                raw = bytearray(good[current : current + 65536])
                raw[base + offset : base + offset + width] = value.to_bytes(width, "little")
                yield f"{what} {field}={value}", {current: sealed_super(raw),
                                                  65536 - current: bytes(16)}
    sb = decode(head, good[current : current + 4096])
    seed = int.from_bytes(sb["uuid"][:8], "little")
    for number in (0, 1, 4):  # EPOCH, WRITE, ZERO
        at = positions[number] + sb["ring_start"]
        for offset, count, field, _ in record:
            if field == "header_sum":
                continue
            width = min(count, 8)
            old = int.from_bytes(good[at + offset :][:width], "little")
            for value in awkward(old, width):
                raw = bytearray(good[at : at + 128])
                raw[offset : offset + width] = value.to_bytes(width, "little")
                raw[120:128] = checksum(seed, raw[:120]).to_bytes(8, "little")
                yield f"record {number} {field}={value}", {at: raw}


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    with open("image", "wb") as f:
        f.truncate(1 << 20)
    subprocess.run(["cp", "image", "expected"], check=True)
    subprocess.run([MAKE, "journal", "image", "expected", "records=10", "size=1M", "max=4096"],
                   check=True, stdout=subprocess.DEVNULL)
    good = open("journal", "rb").read()
    lines = subprocess.check_output([TOOL, "dump", "--json", "journal"], text=True).splitlines()
    positions = [int(line.split('"position":')[1].split(",")[0]) for line in lines]
    count = 0
    refused = 0
    for name, changes in variants(good):
        raw = bytearray(good)
        for at, data in changes.items():
            raw[at : at + len(data)] = data
        with open("journal", "r+b") as f:
            f.write(raw)
        before = digest("journal", "image")
        for command in (["check"], ["dump"], ["dump", "--datalog"]):
            done = run(*command, "journal")
            assert done.returncode in (0, 1, 2, 3), (name, command, done.returncode, done.stderr)
            assert done.returncode != 3 or done.stderr, (name, command)
        assert digest("journal", "image") == before, name
        # A replay that would need --yes, of an image that is not there: it can do no harm.
        done = run("replay", "journal", "--to", "18446744073709551614")
        assert done.returncode in (0, 1, 2, 3), (name, "replay", done.returncode, done.stderr)
        if done.returncode in (2, 3):
            refused += 1
            assert digest("journal", "image") == before, (name, done.stderr)
        elif digest("image")[0] != before[1]:
            with open("image", "r+b") as f:
                f.truncate(0)
                f.truncate(1 << 20)
        try:
            os.removexattr("image", "user.nbdkit.journal")
        except OSError:
            pass
        count += 1
    print(count, "journals,", refused, "refused")
    assert count > 250 and refused > 50
