#!/usr/bin/python3
"""SIGTERM while clients are connected and writing: what was answered is in the image afterwards, or still in
the journal, and the journal says so at the next start."""
import os
import signal
import threading
import time

import nbd

import harness

server = harness.Server("64M")
answered = [{} for _ in range(4)]


def write(number):
    handle = server.connect()
    try:
        for step in range(1000000):
            block = number * 2048 + step % 2048
            handle.pwrite(b"%08d" % step * 1024, block * 8192)
            answered[number][block] = step
            if step % 50 == 49:
                handle.flush()
    except nbd.Error:
        pass  # the server goes
    handle.shutdown() if handle.aio_is_ready() else None


threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
while any(len(a) < 100 for a in answered):
    time.sleep(0.01)
os.kill(server.pid, signal.SIGTERM)
for thread in threads:
    thread.join()
status = server.process.wait()
server.process = None
server.handles = []
harness.expect(status == 0, "the server ended with", status)
server.start()
handle = server.connect()
for blocks in answered:
    for block, step in blocks.items():
        got = int(handle.pread(8, block * 8192))
        # The last one may have been done and not answered.
        harness.expect(got in (step, step + 2048), f"block {block} is {got}, not {step}")
server.stop()
