#!/usr/bin/python3
"""The journal under a verified load is killed again and again: nothing that was answered is lost (P0, P3, P7)."""
import random
import time

import harness
import nbdload

chance = random.Random(3)
ledger = harness.path("ledger")
server = harness.Server("48M", parameters=["journal-size=8M"])
answered = 0

for life in range(6):
    load = nbdload.start("--pattern", "mixed", "--read-percent", 30, "--clients", 4, "--in-flight", 4,
                         "--flush-every", 16, "--block-size", "512:2,4k:4,16k,48k,256k", "--align", "512",
                         "--duration", "1h", "--json", "--verify", ledger, "--seed", life, server.uri)
    time.sleep(0.2 + chance.random())
    server.kill()
    result = nbdload.finish(load)
    harness.expect(result.status == nbdload.GONE, result)
    told = result.json()
    harness.expect(told["torn_reads"] == 0, told)
    answered += told["answered"]
    server.start()
    result = nbdload.run("verify", ledger, server.uri, expect=nbdload.DONE)
    harness.expect("broken: nothing" in result.stdout, result)
harness.expect(answered > 1000, answered)
server.stop()
