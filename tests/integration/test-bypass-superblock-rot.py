#!/usr/bin/python3
"""Large writes that went straight to the image are there after kill -9 (P0), even if the newest superblock
rots: the other one must not lead recovery back to records that they replaced."""
import os
import struct
import time

import harness

COPIES = (0, 65536)

server = harness.Server("8M", parameters=["commit-interval=0.2"])
journal = server.journal


def generations():
    with open(journal, "rb") as f:
        found = []
        for at in COPIES:
            f.seek(at + 72)
            found.append((struct.unpack("<Q", f.read(8))[0], at))
    return found


handle = server.connect()
handle.pwrite(b"s" * 4096, 0)
handle.flush()
before = max(generations())[0]
for _ in range(300):  # an idle disk drains: the tail passes the small write
    if max(generations())[0] > before:
        break
    time.sleep(0.1)
time.sleep(0.5)  # for the second copy
handle.pwrite(b"L" * 100000, 0)
handle.flush()
harness.expect(os.pread(os.open(server.image, os.O_RDONLY), 100000, 0) == b"L" * 100000,
               "the large write did not bypass the journal: nothing is tested")
server.kill()
with open(journal, "r+b") as f:
    f.seek(max(generations())[1] + 500)
    byte = f.read(1)
    f.seek(-1, os.SEEK_CUR)
    f.write(bytes([byte[0] ^ 0x55]))
server.start()
handle = server.connect()
got = bytes(handle.pread(100000, 0))
harness.expect(got == b"L" * 100000, f"an older value came back: {got[:4]} at 0, {got[5000:5004]} at 5000")
server.stop()
