#!/usr/bin/python3
"""Data that is wrong while the load runs ends it: the sector, what must be there and what is."""
import os
import re

import harness
import liar
import nbdload

WORDS = {
    "wrong_read": r"a sector of a load with a wrong checksum",
    # Before the first write of the run there were zeroes.
    "stale_read": r"(write \d+ \(|zeroes)",
    "drop_write": r"(write \d+ \(|zeroes)",
    "misplace": r"(what write \d+ wrote to another sector|write \d+ \(|zeroes)",
}

for fault, found in WORDS.items():
    server = liar.Liar("256K", **{fault: 50})
    ledger = harness.path(fault)
    result = nbdload.run("--pattern", "mixed", "--read-percent", 50, "--clients", 4, "--count", 2000,
                         "--verify", ledger, server.uri, expect=nbdload.BROKEN)
    harness.expect(re.search(r"disk 0, sector at \d+: P7: .* expected write \d+ to \d+, found " + found,
                             result.stderr), fault, result)
    # It is known from then on.
    result = nbdload.run("verify", ledger, server.uri, expect=nbdload.BROKEN)
    harness.expect("the run had found: disk 0, sector at" in result.stderr, fault, result)
    result = nbdload.run("--verify", ledger, server.uri, expect=nbdload.BROKEN)
    server.listener.close()
    os.unlink(server.path)
