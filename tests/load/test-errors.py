#!/usr/bin/python3
"""Requests that fail are counted, the first ones are named, and the exit code says so."""
import re

import harness
import nbdload

harness.requires_filter("error")


def under_nbdkit(error, rate, *options):
    """nbdload against nbdkit memory that fails now and then."""
    with nbdload.nbdkit("--filter=error", "memory", "64M", f"error={error}", f"error-rate={rate}") as server:
        return nbdload.run("--pattern", "mixed", "--clients", 4, "--count", 2000, *options, server.uri)


result = under_nbdkit("EIO", "2%", "--json")
harness.expect(result.status == nbdload.ERRORS, result)
told = result.json()
harness.expect(told["failed"] > 0, told)
harness.expect(told["sent"] == told["answered"] + told["failed"] and told["unanswered"] == 0, told)
harness.expect(told["exit_code"] == nbdload.ERRORS, told)
first = told["failures"][0]
harness.expect(first["error"] == "Input/output error", first)
harness.expect(first["request"] in ("read", "write", "flush"), first)
# The failed ones are not among those whose latency was measured.
measured = sum(kind["count"] for kind in told["requests"].values())
final = told.get("final_flush", {"count": 0})["count"]
harness.expect(measured + final == told["answered"], measured, final, told["answered"])

# In words: kind, length, offset, error, and the sums.
result = under_nbdkit("ENOSPC", "100%")
harness.expect(result.status == nbdload.ERRORS, result)
harness.expect(re.search(r"(read|write) of 4096 bytes at \d+ \(client \d, connection \d\): No space left on device",
                         result.stderr), result)
harness.expect(re.search(r"sent, \d+ answered, 8000 failed, 0 unanswered", result.stderr), result)

# Without errors there are none.
harness.expect(under_nbdkit("EIO", "0%").status == nbdload.DONE)
