#!/usr/bin/python3
"""The server is killed at any moment, also while clients connect: nbdload says so and never crashes."""
import random
import time

import harness
import nbdload

chance = random.Random(11)
PATTERNS = ("flush", "fua", "async", "mixed", "read", "seq", "final-flush", "flush-only")
answered = 0

for pattern in PATTERNS * 3:
    with nbdload.nbdkit("memory", "64M") as server:
        load = nbdload.start("--pattern", pattern, "--clients", 8, "--connections", 2, "--in-flight", 3,
                             "--block-size", "16k", "--duration", "1h", "--json", server.uri)
        time.sleep(chance.choice((0.001, 0.01, 0.05, 0.3)) * chance.random())
        server.kill()
        result = nbdload.finish(load)
        harness.expect(result.status == nbdload.GONE, pattern, result)
        told = result.json()
        harness.expect(told["gone"], told)
        harness.expect(told["failed"] == 0, told)
        harness.expect(told["sent"] == told["answered"] + told["unanswered"], told)
        answered += told["answered"]

harness.expect(answered > 0, "no load ever ran")

# Nobody is there.
result = nbdload.run(server.uri)
harness.expect(result.status == nbdload.GONE and "refused" in result.stderr, result)
result = nbdload.run(f"nbd+unix:///?socket={harness.path('nothing')}")
harness.expect(result.status == nbdload.GONE and "No such file" in result.stderr, result)
