#!/usr/bin/python3
"""In an open loop a stall of the server is in the latency of all operations that were due meanwhile."""
import time

import harness
import liar
import nbdload

server = liar.Liar("1M")


def slow_share(*options):
    """Of the operations, those that took longer than 100 ms, while the server stalls for a second."""
    load = nbdload.start("--pattern", "fua", "--json", *options, server.uri)
    before = server.writes
    while server.writes < before + 50:
        harness.expect(load.poll() is None, "the load ended")
        time.sleep(0.01)
    with server.lock:
        time.sleep(1)
    told = nbdload.finish(load).json()
    harness.expect(told["exit_code"] == 0, told)
    return 1 - max([q for q, us in told["operation"]["curve"] if us < 100000], default=0), told


# 900 of 2000 are due while it stalls, and more than 100 ms before it goes on.
share, told = slow_share("--rate", 1000, "--count", 2000)
harness.expect(share > 0.35, share, told)
# Their requests themselves did not take long, all but one.
harness.expect(told["requests"]["fua write"]["p50"] < 100000, told)

# A closed loop has but one to tell of.
share, told = slow_share("--count", 2000, "--think", "1ms")
harness.expect(told["operation"]["p99"] < 100000 or share < 0.35, share, told)
