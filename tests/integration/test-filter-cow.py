#!/usr/bin/python3
"""The cow filter: it opens us read-only, so that nothing of a client reaches image or journal, and a
journal that holds data is shown by it without being changed."""
import hashlib
import os

import harness


def digest(file):
    with open(file, "rb") as data:
        return hashlib.sha256(data.read()).hexdigest()


harness.requires_filter("cow")
server = harness.Server("16M")
disk = harness.Disk(server)
disk.churn(100)
server.kill()  # what was answered is in the journal now
before = digest(server.image), digest(server.journal), os.listxattr(server.image)

server.filters = ["cow"]
server.start()
disk.check("recovered, under cow")
# The filter has neither zero nor trim.
disk.churn(100, "wwFfr")
disk.check("changed, under cow")
server.stop()
after = digest(server.image), digest(server.journal), os.listxattr(server.image)
harness.expect(before == after, "image or journal changed under cow:", before, after)
