#!/usr/bin/python3
"""Kill -9 with requests in flight: each of them is there whole or not at all (P3), and the answered
ones are there (P0)."""
import random

import nbd

import harness

BLOCK = 8192
server = harness.Server("8M")
rng = random.Random(1)
blocks = server.connect().get_size() // BLOCK
for life in range(12):
    handle = server.connect()
    answered = [0] * blocks
    base = handle.pread(blocks * BLOCK, 0)
    pending = []
    for number in range(1, 400):
        # Few blocks, each again and again: its bytes tell which write it was.  Writes to one block
        # never overlap in flight.
        block = rng.randrange(64)
        data = nbd.Buffer.from_bytearray(bytearray(b"%08d" % (life * 1000 + number) * (BLOCK // 8)))
        while True:
            pending = [p for p in pending if not harness.retired(handle, p, answered)]
            if len(pending) < 32 and all(p[1] != block for p in pending):
                break
            handle.poll(-1)
        pending.append((handle.aio_pwrite(data, block * BLOCK), block, life * 1000 + number))
        if number > 200 and rng.random() < 0.01:
            break
    server.kill()
    server.start()
    handle = server.connect()
    # Maybe answered and not looked at yet, so either is legal.
    sent = {block: number for _, block, number in pending}
    for block in range(blocks):
        data = handle.pread(BLOCK, block * BLOCK)
        harness.expect(data == data[:8] * (BLOCK // 8), f"life {life}: block {block} is torn")
        legal = {b"%08d" % answered[block] if answered[block] else bytes(base[block * BLOCK:block * BLOCK + 8])}
        if block in sent:
            legal.add(b"%08d" % sent[block])
        harness.expect(bytes(data[:8]) in legal, f"life {life}: block {block} is {data[:8]}, not one of {legal}")
server.stop()
