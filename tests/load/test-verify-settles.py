#!/usr/bin/python3
"""What a crash took is settled by verify: it is not missed again, and must not come back."""
import json

import harness
import liar
import nbdload

server = liar.Liar("128K")
ledger = harness.path("ledger")

server.power_cut_at("prefix", writes=300, pending=300)
nbdload.run("--pattern", "final-flush", "--clients", 2, "--duration", "1h", "--verify", ledger, server.uri,
            expect=nbdload.GONE)
newest = bytes(server.before_cut)

# Half of it is lost; a killed server would have kept it.
nbdload.run("verify", ledger, server.uri, expect=nbdload.BROKEN)
nbdload.run("verify", "--power", ledger, server.uri, expect=nbdload.DONE)
# From then on what was found is the state.
nbdload.run("verify", ledger, server.uri, expect=nbdload.DONE)

# The lost writes are back.
server.disk[:] = newest
told = json.loads(nbdload.run("verify", "--power", "--json", ledger, server.uri, expect=nbdload.BROKEN).stdout)
harness.expect(told["broken"]["P7"] > 0, told)
harness.expect("back that was gone" in told["violations"][0]["what"], told)
