#!/usr/bin/python3
"""A file that is no ledger of these disks is refused and left as it is."""
import os
import time

import harness
import nbdload

ledger = harness.path("ledger")


def events():
    """It has a counter that moves with each of them."""
    with open(ledger, "rb") as file:
        return file.read(40)[32:]


def refused(words, *arguments):
    result = nbdload.run(*arguments, expect=nbdload.USAGE)
    harness.expect(words in result.stderr, words, result)


with nbdload.nbdkit("memory", "1M") as disk, nbdload.nbdkit("memory", "2M") as other:
    # Nothing there: verify makes none.
    refused("No such file", "verify", ledger, disk.uri)
    harness.expect(not os.path.exists(ledger))

    # Other files keep their bytes.
    for content in (b"something else", bytes(8192), b"x" * 100000):
        with open(ledger, "wb") as file:
            file.write(content)
        refused("no ledger", "--count", 1, "--verify", ledger, disk.uri)
        refused("no ledger", "verify", ledger, disk.uri)
        with open(ledger, "rb") as file:
            harness.expect(file.read() == content, "the file was changed")
        os.unlink(ledger)
    os.mkdir(ledger)
    refused("directory", "--count", 1, "--verify", ledger, disk.uri)
    os.rmdir(ledger)

    nbdload.run("--count", 100, "--verify", ledger, disk.uri, expect=nbdload.DONE)
    refused("had 1048576 bytes", "verify", ledger, other.uri)
    refused("is of 1 disks, 2 are given", "verify", ledger, disk.uri, other.uri)
    refused("its range is 0-1048576", "--count", 1, "--range", "512k", "--verify", ledger, disk.uri)

    # One at a time.
    load = nbdload.start("--duration", "1h", "--verify", ledger, disk.uri)
    try:
        before = events()
        while events() == before:
            harness.expect(load.poll() is None, "the load ended")
            time.sleep(0.01)
        refused("another nbdload uses it", "verify", ledger, disk.uri)
        refused("another nbdload uses it", "--count", 1, "--verify", ledger, disk.uri)
    finally:
        load.terminate()
        nbdload.finish(load)

    # Damaged in its head: refused, not believed.
    with open(ledger, "r+b") as file:
        file.seek(4096 + 24)
        file.write(b"\xff" * 8)
    refused("no ledger", "verify", ledger, disk.uri)
    os.truncate(ledger, 5000)
    refused("no ledger", "verify", ledger, disk.uri)
