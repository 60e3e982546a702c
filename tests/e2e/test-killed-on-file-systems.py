#!/usr/bin/python3
"""Image and journal on ext4, XFS and btrfs, many clients at work, kill -9 a hundred times on each: every byte
that was answered is there (P0), what was not is there whole or not at all (P3).

    JOURNAL_TEST_SEED=N JOURNAL_TEST_ROUNDS=N for another run, or more of it.
"""
import os

import harness
import places

places.requires()
seed = int(os.environ.get("JOURNAL_TEST_SEED") or 1)
rounds = int(os.environ.get("JOURNAL_TEST_ROUNDS") or 100)
for kind in ("ext4", "xfs", "btrfs"):
    there = places.FileSystem(kind)
    server = harness.Server(None, parameters=["journal-size=2M"], start=False)
    server.image, server.journal = there.file("disk.img", 2000001), there.file("disk.img.journal")
    harness.random_requests(server, rounds * 170, kills=rounds, seed=seed, bypass=65536)
    os.unlink(server.journal)
print(f"{3 * rounds} kills in all")
