#!/usr/bin/python3
"""Several exports are loaded and verified together; what belongs to another one is noticed."""
import json
import os

import harness
import nbdload

folder = harness.path("disks")
ledger = harness.path("ledger")
os.mkdir(folder)
for name in "abc":
    with open(os.path.join(folder, name), "wb") as file:
        file.truncate(1 << 20)

with nbdload.nbdkit("file", f"dir={folder}") as server:
    uris = [f"nbd+unix:///{name}?socket={server.socket}" for name in "abc"]
    told = nbdload.run("--count", 200, "--clients", 4, "--verify", ledger, "--json", *uris, expect=nbdload.DONE).json()
    harness.expect(told["operation"]["count"] == 800 and len(told["exports"]) == 3, told)
    nbdload.run("verify", "--power", "--order", "all", ledger, *uris, expect=nbdload.DONE)
    # By default each URI has a client.
    told = nbdload.run("--count", 10, "--json", *uris, expect=nbdload.DONE).json()
    harness.expect(told["options"]["clients"] == 3, told)

with nbdload.nbdkit("file", f"dir={folder}") as server:
    uris = [f"nbd+unix:///{name}?socket={server.socket}" for name in "bac"]
    told = json.loads(nbdload.run("verify", "--json", ledger, *uris, expect=nbdload.BROKEN).stdout)
    harness.expect({v["disk"] for v in told["violations"]} <= {0, 1, 2}, told)
    harness.expect(any("wrote to another sector: disk 1" in v["found"] for v in told["violations"]), told)
