#!/usr/bin/python3
"""After a killed server, verify wants all that was answered, and names what is not there."""
import json
import os
import time

import harness
import liar
import nbdload


def load_and_kill(**faults):
    """The load is hit in the middle."""
    server = liar.Liar("4M", **faults)
    ledger = harness.path("ledger")
    if os.path.exists(ledger):
        os.unlink(ledger)
    load = nbdload.start("--pattern", "async", "--flush-every", 20, "--clients", 3, "--in-flight", 2,
                         "--block-size", "512,2k,4k", "--duration", "1h", "--verify", ledger, server.uri)
    while server.writes < 1000:
        harness.expect(load.poll() is None, "the load ended")
        time.sleep(0.01)
    server.kill()
    result = nbdload.finish(load)
    harness.expect(result.status == nbdload.GONE, result)
    return server, ledger


def done(server):
    server.listener.close()
    os.unlink(server.path)


server, ledger = load_and_kill()
result = nbdload.run("verify", ledger, server.uri, expect=nbdload.DONE)
harness.expect("broken: nothing" in result.stdout, result)
# The run goes on.
nbdload.run("--count", 100, "--verify", ledger, server.uri, expect=nbdload.DONE)
nbdload.run("verify", "--power", ledger, server.uri, expect=nbdload.DONE)
done(server)

# A write that was answered and forgotten.
server, ledger = load_and_kill(drop_write=20)
told = json.loads(nbdload.run("verify", "--json", ledger, server.uri, expect=nbdload.BROKEN).stdout)
harness.expect(told["broken"]["P0"] + told["broken"]["P1"] > 0, told)
first = told["violations"][0]
# It is the first one, and twice the same.
harness.expect(first["offset"] == min(v["offset"] for v in told["violations"]), told)
again = json.loads(nbdload.run("verify", "--json", ledger, server.uri, expect=nbdload.BROKEN).stdout)
harness.expect(again == told, again, told)
# What stands there is what is told.
place = first["offset"]
sequence = int.from_bytes(server.disk[place + 32:place + 40], "little")
harness.expect(sequence == 0 or f"write {sequence} " in first["found"], sequence, first)
harness.expect(sequence < first["expected_from"], sequence, first)
done(server)

# A sector that holds rubbish.
server, ledger = load_and_kill()
written = [p for p in range(0, server.size, 512) if any(server.disk[p:p + 512])]
server.disk[written[7]:written[7] + 8] = b"rubbish!"
result = nbdload.run("verify", ledger, server.uri, expect=nbdload.BROKEN)
harness.expect(f"sector at {written[7]}: P" in result.stderr, result)
harness.expect("found: other bytes: 72 75 62 62 69 73 68 21" in result.stderr, result)
done(server)
