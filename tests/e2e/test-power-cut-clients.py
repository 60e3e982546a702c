#!/usr/bin/python3
"""The power is cut while several clients, with several connections each, write and flush: nothing is missing
that was flushed on any of them, and nothing is there in part or out of order.
"""
import os
import random
import subprocess

import harness
import power

seed = int(os.environ.get("JOURNAL_TEST_SEED") or random.randrange(1 << 32))
rounds = int(os.environ.get("JOURNAL_TEST_ROUNDS") or 6)
print(f"JOURNAL_TEST_SEED={seed}", flush=True)
rng = random.Random(seed)
ledger, out = harness.path("ledger"), harness.path("out")
NBDLOAD = os.path.join(harness.BUILD, "tools/nbdload/nbdload")
PATTERNS = (["async", "--flush-every=8"], ["flush"], ["fua"], ["mixed", "--read-percent=20", "--flush-every=8"])

machine = power.DeviceMachine(rng.random())
server = machine.server
server.start()
for number in range(rounds):
    pattern, *options = rng.choice(PATTERNS)
    command = [NBDLOAD, "--clients=3", "--connections=2", "--in-flight=4", "--block-size=512,4k,20k", "--align=512",
               f"--pattern={pattern}", *options, f"--seed={number + 1}", f"--verify={ledger}", "--duration=1h"]
    with open(out, "wb") as log:
        load = subprocess.Popen(command + [server.uri], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    timer = machine.cut_after(rng.uniform(0.2, 2))
    status = load.wait()
    timer.join()
    with open(out, errors="replace") as log:
        harness.expect(status in (3, 4), f"nbdload ended with {status}:", log.read())
    machine.boot_again()
    server.start()
    print(machine.run(NBDLOAD, "verify", "--power", "--atomic=32k", ledger, server.uri))
server.stop()
machine.shut_down()
