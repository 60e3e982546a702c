#!/usr/bin/python3
"""After a power cut, verify accepts every cut that keeps the promises, and names each broken one."""
import json
import os

import harness
import liar
import nbdload

LOAD = ("--pattern", "async", "--flush-every", 40, "--clients", 4, "--block-size", "512,2k:3,4k")


def after(cut, *options, **faults):
    """What verify says."""
    server = liar.Liar("256K", **faults)
    ledger = harness.path("ledger")
    if os.path.exists(ledger):
        os.unlink(ledger)
    # With a good deal that is not flushed: a hole needs something behind it.
    server.power_cut_at(cut, writes=800, pending=12)
    load = nbdload.start(*LOAD, "--duration", "1h", "--verify", ledger, server.uri)
    harness.expect(nbdload.finish(load).status == nbdload.GONE)
    result = nbdload.run("verify", "--power", "--json", *options, ledger, server.uri)
    server.listener.close()
    os.unlink(server.path)
    return result.status, json.loads(result.stdout)


for cut in ("none", "prefix"):
    status, told = after(cut)
    harness.expect(status == nbdload.DONE and told["good"], cut, told)
    harness.expect(told["lost_unflushed"] > 0, "nothing was lost: the cut was none", cut, told)

status, told = after("flushed")
harness.expect(status == nbdload.BROKEN and told["broken"]["P1"] > 0, told)

status, told = after("prefix", swallow_flush=True)
harness.expect(status == nbdload.BROKEN and told["broken"]["P1"] > 0, told)

status, told = after("hole")
harness.expect(status == nbdload.BROKEN and told["broken"]["P2"] > 0, told)
harness.expect(told["broken"]["P1"] == 0, told)
status, told = after("hole", "--order", "none")
harness.expect(status == nbdload.DONE, told)

status, told = after("torn")
harness.expect(status == nbdload.BROKEN and told["broken"]["P3"] == 1, told)
status, told = after("torn", "--atomic", "0", "--order", "none")
harness.expect(status == nbdload.DONE, told)
