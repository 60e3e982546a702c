#!/usr/bin/python3
"""The power is cut again and again, image and journal are block devices that tear at 512 bytes.
The disk is as it was after some prefix of the requests, with all that was flushed: here of requests that are
too small to bypass the journal, with data=ordered (P2).
"""
import os
import random

import harness
import power
import recorded

seed = int(os.environ.get("JOURNAL_TEST_SEED") or random.randrange(1 << 32))
rounds = int(os.environ.get("JOURNAL_TEST_ROUNDS") or 60)
print(f"JOURNAL_TEST_SEED={seed}", flush=True)
rng = random.Random(seed)


def forever():
    while True:
        model.churn(20)


def start_and_cut():
    timer = machine.cut_after(rng.uniform(0, 0.15))
    machine.until_cut(server.start)
    timer.join()
    machine.boot_again()


machine = power.DeviceMachine(rng.random(), parameters=["commit-interval=0.2"])
server = machine.server
server.start()
model = recorded.Disk(server, seed=rng.random(), largest=65535)
for number in range(rounds):
    timer = machine.cut_after(rng.choice((rng.uniform(0, 0.2), rng.uniform(0, 0.2), rng.uniform(0, 0.2), rng.uniform(0, 1))))
    machine.until_cut(forever)
    timer.join()
    machine.boot_again()
    if rng.random() < 0.3:
        start_and_cut()
    # Clean or needs replay, never damaged.
    machine.run(harness.NBDJOURNAL, "check", server.journal, server.image, status=(0, 1))
    server.start()
    kept = model.check_prefix()
    print(f"cut {number + 1}: {kept} more than were flushed")
    model.churn(30)
    model.check("second life")
server.stop()
model.check_file(server.image)
machine.shut_down()
