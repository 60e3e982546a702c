#!/usr/bin/python3
"""Servers that hang up, shrink or fall silent are told from good ones; answers in any order are right."""
import os
import re

import harness
import liar
import nbdload


def against(expect, *options, **faults):
    server = liar.Liar("1M", **faults)
    result = nbdload.run(*options, server.uri, expect=expect)
    server.listener.close()
    os.unlink(server.path)
    return result


MIXED = ("--pattern", "mixed", "--clients", 4, "--in-flight", 4, "--count", 300)

against(nbdload.DONE, *MIXED)

result = against(nbdload.GONE, *MIXED, hang_up_at=3)
harness.expect("liar" in result.stderr, result)

result = against(nbdload.GONE, *MIXED, shrink=True)
harness.expect(re.search(r"the size was \d+ bytes and is now \d+", result.stderr), result)

result = against(nbdload.GONE, *MIXED, "--stall", "600ms", silent_after=50)
harness.expect("has not answered for" in result.stderr, result)

# Whose answer it is, the cookie says and not the order; a ledger would notice a mix-up.
against(nbdload.DONE, *MIXED, "--verify", harness.path("ledger"), shuffle=4)

# What a ledger believes of flushes is not true of such a server; one connection is fine.
result = against(nbdload.USAGE, *MIXED, "--verify", harness.path("ledger2"), single=True)
harness.expect("several connections" in result.stderr, result)
against(nbdload.DONE, "--count", 10, "--verify", harness.path("ledger3"), single=True)
