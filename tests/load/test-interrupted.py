#!/usr/bin/python3
"""A load that is interrupted, or killed itself, leaves a ledger from which the next one goes on."""
import signal
import time

import harness
import nbdload

ledger = harness.path("ledger")
image = harness.path("image")
with open(image, "wb") as file:
    file.truncate(4 << 20)
LOAD = ("--pattern", "mixed", "--clients", 4, "--in-flight", 4, "--flush-every", 8, "--verify", ledger)


def stop(sig, times=1):
    load = nbdload.start(*LOAD, "--duration", "1h", "--json", server.uri)
    time.sleep(0.7)
    for _ in range(times):
        load.send_signal(sig)
        time.sleep(0.01)
    result = nbdload.finish(load)
    # What the server still has of it is executed; afterwards would be too late.
    time.sleep(0.3)
    return result


# One thread a connection: with more nbdkit 1.32 aborts, whatever the plugin, when several of them
# reply to a client that is gone (mended by its commit 9d82aa4f).
with nbdload.nbdkit("--threads=1", "file", image) as server:
    result = stop(signal.SIGINT)
    harness.expect(result.status == 130, result)
    told = result.json()
    # What was on its way was waited for.
    harness.expect(told["interrupted"] and told["unanswered"] == 0 and told["answered"] > 0, told)
    nbdload.run("verify", ledger, server.uri, expect=nbdload.DONE)

    harness.expect(stop(signal.SIGTERM).status == 143)
    nbdload.run(*LOAD, "--count", 50, server.uri, expect=nbdload.DONE)

    # Impatient, or without a chance to do anything.
    stop(signal.SIGINT, 2)
    nbdload.run("verify", ledger, server.uri, expect=nbdload.DONE)
    for _ in range(3):
        result = stop(signal.SIGKILL)
        harness.expect(result.status == -signal.SIGKILL, result)
        nbdload.run("verify", ledger, server.uri, expect=nbdload.DONE)
    result = nbdload.run(*LOAD, "--count", 50, server.uri, expect=nbdload.DONE)
    harness.expect("broken: nothing" in result.stdout, result)
