#!/usr/bin/python3
"""A journal of 1 MiB under 16 writers with FUA and requests of 64 MiB: it never stands still, and all is
right in the end."""
import threading

import nbd

import harness

WRITERS, ROUNDS = 16, 30
server = harness.Server("192M", parameters=["journal-size=1M"])
failures = []


def write_small(number):
    try:
        handle = server.connect()
        for step in range(ROUNDS):
            handle.pwrite(b"%04d%04d" % (number, step) * 2048, (number * ROUNDS + step) * 16384, nbd.CMD_FLAG_FUA)
    except Exception as error:
        failures.append(error)


def write_large(number, flags):
    try:
        handle = server.connect()
        handle.pwrite(bytes([0x60 + number]) * (64 << 20), (64 << 20) * number, flags)
        handle.trim((64 << 20) - 4096, (64 << 20) * number + 4096)
        handle.pwrite(bytes([0x70 + number]) * (64 << 20), (64 << 20) * number, flags)
    except Exception as error:
        failures.append(error)


threads = [threading.Thread(target=write_small, args=(number,)) for number in range(WRITERS)]
threads += [threading.Thread(target=write_large, args=(1, 0)),
            threading.Thread(target=write_large, args=(2, nbd.CMD_FLAG_FUA))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
harness.expect(not failures, "failed:", failures)


def check(when):
    handle = server.connect()
    for number in range(WRITERS):
        for step in range(ROUNDS):
            got = handle.pread(16384, (number * ROUNDS + step) * 16384)
            harness.expect(got == b"%04d%04d" % (number, step) * 2048, f"{when}: writer {number}, step {step}")
    for number in 1, 2:
        for at in range(0, 64 << 20, 16 << 20):
            got = handle.pread(16 << 20, (64 << 20) * number + at)
            harness.expect(got == bytes([0x70 + number]) * (16 << 20), f"{when}: large write {number} at {at}")


check("served")
server.kill()
server.start()
check("after kill -9")
server.stop()
server.start()
check("after a clean stop")
server.stop()
