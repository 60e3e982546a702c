#!/usr/bin/python3
"""Random requests on four connections, overlapping in flight, against a model that knows for each byte
which values are legal (P0, P3, P7); kill -9 in between; with and without writes that bypass the journal.

    JOURNAL_TEST_SEED=N JOURNAL_TEST_REQUESTS=N for another run, or more of it.
"""
import os

import harness

seed = int(os.environ.get("JOURNAL_TEST_SEED") or 1)
requests = int(os.environ.get("JOURNAL_TEST_REQUESTS") or 150000)
total = 0
# Journals so small that they go round again and again; the second one is always full.
for number, (parameters, bypass) in enumerate([
        (["journal-size=4M", "commit-interval=1"], 65536),
        (["journal-size=1M", "data=journal", "commit-interval=1"], None),
]):
    server = harness.Server("4000001", name=f"disk{number}", parameters=parameters, start=False)
    total += harness.random_requests(server, requests // 2, kills=10, seed=seed, bypass=bypass)
print(f"{total} requests in all")
