#!/usr/bin/python3
"""Thousands of clients come and go, politely or not: descriptors, threads and memory are where they were (P8).

    JOURNAL_TEST_CONNECTS=N for more or fewer.
"""
import os
import socket
import time

import harness
import raw

connects = int(os.environ.get("JOURNAL_TEST_CONNECTS") or 20000)
# No descriptor, no thread more; and less than 50 bytes for each client, which is what a list entry would take.
SLACK_KIB = 64
server = harness.Server("8M", parameters=["journal-size=1M"])


def only_looks(client):
    client.greet()
    client.ask(raw.OPT_INFO, raw.export())
    client.sendall(raw.option(raw.OPT_ABORT))


def goes_politely(client):
    client.go()
    client.sendall(raw.request(raw.CMD_DISC))


def is_reset(client):
    client.greet()
    client.reset()


def closes_half(client):
    client.go()
    client.shutdown(socket.SHUT_WR)
    harness.expect(client.recv(1) == b"", "an answer to nothing")


def writes_and_is_reset(client):
    client.go()
    client.sendall(raw.request(raw.CMD_WRITE, offset=4096, length=512) + b"w" * 512)
    client.reset()


KINDS = (only_looks, goes_politely, is_reset, closes_half, writes_and_is_reset)


def come_and_go(count):
    for number in range(count):
        client = raw.Client(server)
        KINDS[number % len(KINDS)](client)
        client.close()


def settled():
    """When all of the last ones are gone."""
    for _ in range(400):
        now = raw.used(server)
        if now <= before:
            break
        time.sleep(0.025)
    harness.expect(now <= before, f"descriptors and threads: {before} before, {now} after")
    return raw.memory_kib(server)


# The first one that may write makes the server write its mark, and more.
server.connect().flush()
server.handles.clear()
time.sleep(0.1)
before = raw.used(server)
come_and_go(connects // 2)
warm = settled()
come_and_go(connects // 2)
after = settled()
print(f"{connects} clients: {before} descriptors and threads, {warm} KiB in the middle, {after} KiB at the end")
harness.expect(after - warm <= max(SLACK_KIB, connects // 2 * 50 // 1024), f"memory grew from {warm} to {after} KiB")
disk = harness.Disk(server)
disk.survive(20)
server.stop()
