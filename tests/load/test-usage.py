#!/usr/bin/python3
"""Options that make no sense are refused; the help, the manual and the program know the same ones."""
import os
import re

import harness
import nbdload

URI = f"nbd+unix:///?socket={harness.path('nothing')}"

for arguments in ([], ["--clients", "0", URI], ["--clients", "x", URI], ["--block-size", "0", URI],
                  ["--block-size", "64M", URI], ["--block-size", "4k:0", URI], ["--range", "5-3", URI],
                  ["--pattern", "no-such", URI], ["--pattern", "trace"], ["--rate", "0", URI],
                  ["--rate", "10", "--think", "1", URI], ["--poisson", URI], ["--duration", "-1", URI],
                  ["--duration", "1w", URI], ["--count", "1x", URI], ["--no-such-option", URI],
                  ["--read-percent", "101", URI], [URI, URI, "--clients", "1"],
                  ["--verify", "x", "--block-size", "100", URI], ["--verify", "x", "--align", "100", URI],
                  ["--verify", "x", "--range", "100", URI], ["--order", "some", "--verify", "x", URI],
                  ["--clients", "100000", "--in-flight", "100", URI],
                  ["verify"], ["verify", "x"], ["verify", "--nonsense", "x", URI]):
    result = nbdload.run(*arguments, expect=nbdload.USAGE)
    harness.expect("nbdload" in result.stderr and not result.stdout, arguments, result)

result = nbdload.run("not-a-uri", expect=nbdload.USAGE)
harness.expect("not-a-uri" in result.stderr, result)
harness.expect(nbdload.run("--version").stdout.startswith("nbdload "))


def options(text):
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text, re.M))


with open(os.path.join(harness.SOURCE, "docs/nbdload.1.pod")) as pod:
    manual = pod.read()
listed = set(re.findall(r"^=item B<(--[a-z-]+)>", manual, flags=re.M))
known = options(nbdload.run("--help", expect=0).stdout) | options(nbdload.run("verify", "--help", expect=0).stdout)
known -= {"--help", "--usage", "--version"}
harness.expect(known == listed, "only in one of help and manual:", known ^ listed)
for pattern in ("flush", "fua", "async", "mixed", "read", "seq", "final-flush", "flush-only", "trace"):
    harness.expect(re.search(rf"^=item B<{pattern}\b", manual, flags=re.M), pattern)
