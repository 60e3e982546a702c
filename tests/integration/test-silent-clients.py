#!/usr/bin/python3
"""500 clients that say nothing, stop in the middle of the handshake or of a payload, or never read their answer, hold
no lock, no space of the journal and no more memory than their one request (P8): a good client goes on through a
journal that is far smaller than what it writes."""
import resource
import struct

import harness
import raw

SILENT, HALF, IDLE, SENDERS, READERS = 200, 100, 100, 50, 50
REQUEST = 1 << 20
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
server = harness.Server("16M", parameters=["journal-size=1M"])
disk = harness.Disk(server, largest=64 << 10)
disk.churn(50)
before, memory_before = raw.used(server), raw.memory_kib(server)
clients = [raw.Client(server) for _ in range(SILENT + HALF + IDLE + SENDERS + READERS)]
rest = iter(clients[SILENT:])
for number in range(HALF):
    client = next(rest)
    if number % 2:
        client.greet()
        client.sendall(raw.option(raw.OPT_GO, raw.export(b"name" * 100))[:number + 1])
    else:
        client.sendall(struct.pack(">I", 3)[:1 + number % 3])
for _ in range(IDLE):
    next(rest).go()
for number in range(SENDERS):
    client = next(rest)
    client.go()
    client.sendall(raw.request(raw.CMD_WRITE, offset=0, length=REQUEST, flags=number % 2) + b"!" * (number * 4000))
for _ in range(READERS):
    client = next(rest)
    client.go()
    client.sendall(raw.request(raw.CMD_READ, offset=0, length=REQUEST))
for _ in range(4):
    disk.churn(250)
    disk.check("beside silent clients")
grown = raw.memory_kib(server) - memory_before
bound = (SENDERS + READERS) * (REQUEST >> 10) + len(clients) * 300
print(f"{len(clients)} clients: {grown} KiB of memory, {raw.used(server)[1]} threads")
harness.expect(grown <= bound, f"memory grew by {grown} KiB, more than {bound}")
# Of the half payloads nothing is seen, now and after the clients are gone (P9).
for client in clients:
    client.close()
disk.churn(50)
disk.check("alone again")
server.kill()
server.start()
disk.check("after kill -9")
server.stop()
