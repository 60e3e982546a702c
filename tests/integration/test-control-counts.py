#!/usr/bin/python3
"""The control socket's numbers are those of the requests, for each disk and each client, and they stay when
clients go."""
import os
import threading

import nbd

import control
import harness

os.mkdir(harness.path("disks"))
for name in ("a.img", "b.img"):
    with open(harness.path("disks/" + name), "wb") as image:
        image.truncate(8 << 20)
server = control.server(None, start=False)
server.serves = "dir=" + harness.path("disks")
server.start()

stats = control.ask()
harness.expect(stats["protocol"] == 1 and stats["pid"] == server.pid, stats)
harness.expect(stats["journal"]["state"] == "idle", "nobody may write yet:", stats["journal"])
harness.expect(stats["disks"] == [] and stats["clients"] == [], "no client came yet")


def numbers(o, **wanted):
    got = {key: o[key] for key in wanted}
    harness.expect(got == wanted, "expected", wanted, "got", got)


a, a2, b = server.connect("a.img"), server.connect("a.img"), server.connect("b.img")
for number in range(10):
    a.pwrite(b"w" * 1000, 5000 * number)
a2.pwrite(b"f" * 512, 1 << 20, nbd.CMD_FLAG_FUA)
a2.flush()  # covered by the FUA write's commit
a.pread(300, 0)
a.trim(4096, 2 << 20)
a.zero(8192, 3 << 20, nbd.CMD_FLAG_NO_HOLE)
a.flush()
b.pread(4096, 0)
b.pwrite(b"b" * 7, 0)
b.flush()
harness.expect_error("ENOSPC", b.pwrite, b"beyond", (8 << 20) - 3)

stats = control.ask()
disks = {disk["name"]: disk for disk in stats["disks"]}
of_a = dict(reads=1, read_bytes=300, writes=11, write_bytes=10512, flushes=2, trims=1, trim_bytes=4096, zeroes=1,
            zero_bytes=8192, fua=1, errors=0)
of_b = dict(reads=1, read_bytes=4096, writes=1, write_bytes=7, flushes=1, trims=0, zeroes=0, fua=0)
numbers(disks["a.img"], connections=2, open=True, writable=True, error=None, dirty_bytes=10512, size=8 << 20, **of_a)
numbers(disks["b.img"], connections=1, dirty_bytes=7, **of_b)
harness.expect(sorted(stats["disks"][i]["path"] for i in range(2)) ==
               [os.path.realpath(harness.path("disks/" + name)) for name in ("a.img", "b.img")])
# One process: one client for each disk, whatever its connections.
clients = {client["disk"]: client for client in stats["clients"]}
harness.expect(len(stats["clients"]) == 2, stats["clients"])
numbers(clients["a.img"], connections=2, **of_a)
numbers(clients["b.img"], connections=1, **of_b)
harness.expect(clients["a.img"]["client"].endswith(f"[{os.getpid()}]"), "who:", clients["a.img"]["client"])
numbers(stats["requests"], reads=2, writes=12, write_bytes=10519, flushes=3, fua=1)
numbers(stats["commits"], flushes=3, empty_flushes=1, answered=3, failed=0)
harness.expect(stats["commits"]["time"]["count"] == stats["commits"]["count"] >= 3, stats["commits"])
harness.expect(sum(n for _, n in stats["commits"]["time"]["buckets"]) == stats["commits"]["count"], "buckets")
journal = stats["journal"]
numbers(journal, state="active", failed=False, dirty_bytes=10519, read_only=False)
harness.expect(0 < journal["used_bytes"] < journal["ring_bytes"], journal)
harness.expect(0 < journal["oldest_ns"] < stats["uptime_ns"], journal)
harness.expect(journal["durable_lsn"] == journal["published_lsn"] == journal["last_lsn"], journal)

numbers(stats["bypass"], writes=0, bytes=0)
# A large write goes straight to the image, and a flush is a barrier of it, too.
b.pwrite(b"B" * (256 << 10), 4 << 20)
barriers = control.ask()["bypass"]["barriers"]
b.flush()
numbers(control.ask()["bypass"], writes=1, bytes=256 << 10, barriers=barriers + 1)
numbers({d["name"]: d for d in control.ask()["disks"]}["b.img"], dirty_bytes=7, lost=False)

# Each disk and client knows which commits answered its flushes: here each flush had its own.
stats = control.ask()
for row in stats["disks"] + stats["clients"]:
    flushes = 2 if row.get("disk", row.get("name")) == "a.img" else 1
    time = row["commit_time"]
    numbers(row, commits=flushes, held=0, company=0)
    harness.expect(time["count"] == flushes == sum(n for _, n in time["buckets"]), row)
    harness.expect(0 < time["p50_ns"] <= time["p99_ns"] <= time["p999_ns"] == time["buckets"][-1][0], time)
    harness.expect(time["sum_ns"] <= sum(top * n for top, n in time["buckets"]), time)
for disk in stats["disks"]:
    numbers(disk, writeback_bytes=0)
    harness.expect(0 < disk["oldest_ns"] <= stats["journal"]["oldest_ns"], disk, stats["journal"])

# A change that is overwritten is not dirty twice.
b.pwrite(b"b" * 7, 3)
numbers({d["name"]: d for d in control.ask()["disks"]}["b.img"], dirty_bytes=10, writes=3)

# Who is gone is listed no more, and counted still.
server.handles.remove(a2)
a2.shutdown()
while len(control.ask()["clients"]) < 2 or {c["disk"]: c for c in control.ask()["clients"]}["a.img"]["connections"] > 1:
    pass
server.handles.remove(a)
a.shutdown()
while len(control.ask()["clients"]) > 1:
    pass
disks = {disk["name"]: disk for disk in control.ask()["disks"]}
numbers(disks["a.img"], connections=0, **of_a)
again = server.connect("a.img")
again.pread(1, 0)
stats = control.ask()
numbers({d["name"]: d for d in stats["disks"]}["a.img"], connections=1, reads=2, writes=11)
numbers({c["disk"]: c for c in stats["clients"]}["a.img"], reads=1, writes=0)

# When it is idle all goes home: nothing is dirty, and nothing old.
while control.ask()["journal"]["dirty_bytes"] > 0 or control.ask()["writeback"]["running"]:
    pass
stats = control.ask()
numbers(stats["journal"], oldest_ns=0)
harness.expect(stats["writeback"]["bytes"] >= 10522 and stats["writeback"]["checkpoints"] >= 1, stats["writeback"])
disks = {disk["name"]: disk for disk in stats["disks"]}
numbers(disks["a.img"], oldest_ns=0, dirty_bytes=0, writeback_bytes=10512)
numbers(disks["b.img"], oldest_ns=0, dirty_bytes=0, writeback_bytes=stats["writeback"]["bytes"] - 10512)

# nbdjournal shows the same.
text = control.tool("stats", control.path())
for words in (f"process {server.pid}", "active", "a.img", "b.img", f"[{os.getpid()}]", "batch=rally"):
    harness.expect(words in text, words, "is not in:", text)
server.stop()

# After a crash the age is that of the records, not of the server.
server.start()
server.connect("a.img").pwrite(b"x" * 100, 0)
server.kill()
server.start()
stats = control.ask()
harness.expect(stats["journal"]["dirty_bytes"] == 100, stats["journal"])
harness.expect(stats["journal"]["oldest_ns"] > stats["uptime_ns"], "older than the server:", stats["journal"])
server.stop()

# Several at a time: a commit that was held back is counted for the disk whose flush led it, and each flush that
# came meanwhile for its own; in all as many as the journal counts.
server = control.server(None, parameters=["min-batch-time=1000"], start=False)
server.serves = "dir=" + harness.path("disks")
server.start()


def flush_often(name):
    handle = server.connect(name)
    for number in range(100):
        handle.pwrite(b"h" * 512, number * 512)
        handle.flush()


threads = [threading.Thread(target=flush_often, args=(name,)) for name in ("a.img", "b.img", "a.img", "b.img")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
stats = control.ask()
for rows in (stats["disks"], stats["clients"]):
    numbers(stats["batch"], waits=sum(row["held"] for row in rows), company=sum(row["company"] for row in rows))
    numbers(stats["commits"], flushes=sum(row["commit_time"]["count"] for row in rows))
    for row in rows:
        harness.expect(0 < row["commits"] <= row["commit_time"]["count"] <= 200, row)
harness.expect(stats["batch"]["waits"] > 0 and stats["batch"]["company"] > 0, "nobody waited:", stats["batch"])
harness.expect(sum(disk["commits"] for disk in stats["disks"]) >= stats["commits"]["answered"], "each answers a disk", stats)
