#!/usr/bin/python3
"""The stats filter: it writes its numbers in a clean stop, after our own final work."""
import re

import harness

harness.requires_filter("stats")
stats = harness.path("stats")
server = harness.Server("4M", filters=["stats"], parameters=[f"statsfile={stats}"])
disk = harness.Disk(server)
disk.survive(100)
server.stop()
disk.check_file(server.image, when="image after a clean stop")
with open(stats) as lines:
    text = lines.read()
for kind in "read", "write", "trim", "zero", "flush":
    harness.expect(re.search(rf"^{kind}: [1-9]", text, re.M), f"no line about {kind} in: {text}")
