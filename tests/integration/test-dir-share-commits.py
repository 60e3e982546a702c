#!/usr/bin/python3
"""dir=: 32 disks, one client each, that write and flush at the same time share commits."""
import os
import re
import threading

import harness

DISKS, ROUNDS = 32, 20

folder = harness.path("disks")
os.mkdir(folder)
for i in range(DISKS):
    with open(f"{folder}/d{i}", "wb") as image:
        image.truncate(1 << 20)


class FolderServer(harness.Server):
    def command(self):
        command = super().command()
        return [f"dir={folder}" if a.startswith("file=") else a for a in command]


server = FolderServer(size=None, options=["-v", "-D", "journal.commit=1"])
handles = [server.connect(f"d{i}") for i in range(DISKS)]
errors = []


def client(i):
    try:
        for n in range(ROUNDS):
            handles[i].pwrite(bytes([i + n]) * 4096, 8192 * n)
            handles[i].flush()
    except Exception as error:
        errors.append(error)


threads = [threading.Thread(target=client, args=(i,)) for i in range(DISKS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
harness.expect(not errors, errors)
with open(harness.log, errors="replace") as lines:
    commits = sum(bool(re.search(r"debug: commit \d", line)) for line in lines)
print(f"{DISKS * ROUNDS} flushes, {commits} commits")
harness.expect(commits < DISKS * ROUNDS / 2, commits, "commits")
server.kill()
server.start()
for i in range(DISKS):
    disk = server.connect(f"d{i}")
    for n in range(ROUNDS):
        harness.expect(disk.pread(4096, 8192 * n) == bytes([i + n]) * 4096, f"disk {i}, round {n}")
server.stop()
for i in range(DISKS):
    with open(f"{folder}/d{i}", "rb") as image:
        image.seek(8192)
        harness.expect(image.read(4096) == bytes([i + 1]) * 4096, f"file {i}")
