#!/usr/bin/python3
"""A log that nbd-server itself wrote is replayed."""
import os
import subprocess
import time

import nbd

import harness
import nbdload

harness.requires_program("nbd-server")
config, pid_file, image, socket = (harness.path(n) for n in ("conf", "pid", "real.img", "real.sock"))
real = harness.path("real.tr")
with open(image, "wb") as file:
    file.truncate(1 << 20)
with open(config, "w") as file:
    # The port is not used; it can't do without one.
    file.write(f"[generic]\nunixsock = {socket}\nlistenaddr = 127.0.0.1\nport = {20000 + os.getpid() % 20000}\n"
               f"[disk]\nexportname = {image}\nflush = true\nfua = true\ntrim = true\n"
               f"transactionlog = {real}\ndatalog = true\n")
subprocess.run(["nbd-server", "-C", config, "-p", pid_file], stdin=subprocess.DEVNULL, check=True)
for _ in range(400):
    if os.path.exists(socket) and os.path.exists(pid_file) and os.path.getsize(pid_file):
        break
    time.sleep(0.05)
try:
    handle = nbd.NBD()
    handle.connect_uri(f"nbd+unix:///disk?socket={socket}")
    handle.pwrite(b"real" * 128, 8192)
    handle.flush()
    handle.trim(4096, 65536)
    handle.shutdown()
finally:
    with open(pid_file) as pid:
        os.kill(int(pid.read()), harness.signal.SIGTERM)

with nbdload.nbdkit("memory", "1M") as server:
    nbdload.run("--pattern", "trace", real, server.uri, expect=nbdload.DONE)
    handle = nbd.NBD()
    handle.connect_uri(server.uri)
    harness.expect(handle.pread(512, 8192) == b"real" * 128)
    handle.shutdown()
