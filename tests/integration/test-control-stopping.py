#!/usr/bin/python3
"""While a server stops it still answers on its control socket, and says so."""
import os
import subprocess

import control
import harness

if os.getuid() != 0:
    harness.skip("needs root")
small = harness.path("small")
os.mkdir(small)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=True)
try:
    # The image has no room, so that the stop has to try again and again.
    server = control.server("8M", start=False, parameters=["journal-size=8M", f"journal={harness.path('journal')}"])
    os.rename(server.image, os.path.join(harness.directory, "unused"))
    server.image = os.path.join(small, "disk.img")
    with open(server.image, "wb") as image:
        image.truncate(8 << 20)
    server.start()
    handle = server.connect()
    for number in range(16):
        handle.pwrite(b"z" * (128 << 10), number << 17)
    handle.shutdown()
    server.handles.clear()
    harness.expect(control.ask()["journal"]["state"] == "active")
    server.process.terminate()
    states, seen = [], None
    while server.process.poll() is None:
        try:
            seen = control.ask()
            states.append(seen["journal"]["state"])
        except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
            pass
    harness.expect("stopping" in states, "states seen:", sorted(set(states)))
    harness.expect(seen["disks"][0]["error"] == "No space left on device", seen["disks"])
    harness.expect(not os.path.exists(control.path()), "the socket is still there")
    server.process = None
finally:
    subprocess.run(["umount", "-l", small], check=True)
