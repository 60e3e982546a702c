#!/usr/bin/python3
"""A supervisor loses patience: SIGTERM, and SIGKILL while the data is still being brought home to a slow
image.  At the next start all is there, and a patient stop ends with a complete image."""
import signal
import time

import harness
import places

harness.requires_filter("delay")
places.requires("nbdfuse")
SIZE = 48 << 20
slow = places.Fuse(SIZE, "--filter=delay", "delay-write=20ms")
server = harness.Server(None, parameters=[f"journal={slow.directory}.journal", "journal-size=128M"], start=False)
server.image = slow.file
server.start()
disk = harness.Disk(server, largest=1 << 20)
for patience in (0, 0.2, 1):
    for offset in range(0, SIZE, 1 << 20):
        disk.write(offset, disk.random.randbytes(1 << 20))
    disk.churn(100)
    server.handles.clear()
    disk.handle = None
    server.process.send_signal(signal.SIGTERM)
    time.sleep(patience)
    if server.process.poll() is None:
        print(f"killed after {patience} s")
        server.kill()
    else:
        harness.expect(server.process.wait() == 0, "the stop failed")
    server.start()
    disk.check(f"after a stop that was killed after {patience} s")
server.stop()
disk.check_file(slow.file)
with open(harness.log) as log:
    harness.expect("stopped, drained" in log.read(), "it does not say that the image is complete")
