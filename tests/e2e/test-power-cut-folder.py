#!/usr/bin/python3
"""The power is cut while clients write to several disks of one journal: all disks are cut at the same moment,
and nothing is missing that was flushed on any of them.
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
NAMES = ("a.img", "b.img", "c.img")

machine = power.FileMachine(rng.random(), parameters=["journal-size=2M"])
server = machine.server
folder = os.path.join(os.path.dirname(server.image), "disks")
server.serves = f"dir={folder}"
os.mkdir(folder)
for name in NAMES:
    with open(os.path.join(folder, name), "wb") as file:
        file.truncate(8 << 20)
machine.sync()
uris = [f"nbd+unix:///{name}?socket={server.socket}" for name in NAMES]
server.start()
for number in range(rounds):
    command = [NBDLOAD, "--clients=3", "--in-flight=4", "--block-size=512,4k,20k", "--align=512", "--pattern=async",
               f"--flush-every={rng.choice((4, 32))}", f"--seed={number + 1}", f"--verify={ledger}", "--duration=1h"]
    with open(out, "wb") as log:
        load = subprocess.Popen(command + uris, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    timer = machine.cut_after(rng.uniform(0.2, 2))
    status = load.wait()
    timer.join()
    with open(out, errors="replace") as log:
        harness.expect(status in (3, 4), f"nbdload ended with {status}:", log.read())
    machine.boot_again()
    server.start()
    print(machine.run(NBDLOAD, "verify", "--power", "--order=all", "--atomic=32k", ledger, *uris))
server.stop()
machine.shut_down()
