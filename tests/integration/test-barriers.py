#!/usr/bin/python3
"""P1, seen from outside: before each FLUSH and each FUA request is answered, the journal is synced; and a
flush with nothing new does nothing on the disk.  Nor does a commit look at the times of the journal: on ext4
without a journal of its own the inode would be written with every barrier then."""
import re

import nbd

import harness

harness.requires_program("strace")
trace = harness.path("trace")
server = harness.Server("8M", start=False)
server.wrapper = ["strace", "-f", "-y", "-o", trace, "-e", "trace=fdatasync,fsync,sync_file_range,pwritev2,fstat,newfstatat,statx"]
server.start()


def barriers():
    """Successful ones on the journal, so far."""
    with open(trace, errors="replace") as lines:
        text = lines.read()
    # A call that another thread interrupted is on two lines; its file is on the first.
    ended = 0
    begun = {}
    for line in text.splitlines():
        thread = line.split(" ", 1)[0]
        call = re.search(r" (fdatasync|fsync|pwritev2)\((.*)", line)
        if call:
            syncs = call[1] != "pwritev2" or "RWF_DSYNC" in line or "RWF_SYNC" in line
            begun[thread] = ".journal" in call[2] and syncs
        if re.search(r"\) += \d+", line) and "sync_file_range" not in line and begun.pop(thread, False):
            ended += 1
    return ended


def times_asked():
    """How often somebody asked for all about the journal, so far."""
    with open(trace, errors="replace") as lines:
        text = lines.read()
    return len(re.findall(r" (?:fstat|newfstatat)\(.*\.journal", text)) + len(
        re.findall(r" statx\(.*\.journal.*STATX_(?:MTIME|CTIME|BASIC|ALL)", text))


handle = server.connect()
handle.pwrite(b"w" * 4096, 0)
handle.flush()
asked = times_asked()
for name, call in (("flush", lambda: handle.flush()),
                   ("write with FUA", lambda: handle.pwrite(b"f" * 4096, 4096, nbd.CMD_FLAG_FUA)),
                   ("zero with FUA", lambda: handle.zero(4096, 8192, nbd.CMD_FLAG_FUA)),
                   ("trim with FUA", lambda: handle.trim(4096, 12288, nbd.CMD_FLAG_FUA))):
    for round in range(10):
        if name == "flush":
            handle.pwrite(b"%d" % round * 100, 50000 + round)
        before = barriers()
        call()
        harness.expect(barriers() > before, f"{name} was answered without a barrier on the journal")
harness.expect(times_asked() - asked < 10, f"{times_asked() - asked} looks at the journal's times in 40 commits")

before = barriers()
for _ in range(200):
    handle.flush()
# A few may come from work in the background.
harness.expect(barriers() - before < 20, f"{barriers() - before} barriers for 200 flushes with nothing new")
server.stop()
