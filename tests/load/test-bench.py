#!/usr/bin/python3
"""scripts/bench measures servers in turns and writes table, rounds and plot; it says what it could not do."""
import json
import os
import subprocess
import xml.dom.minidom

import harness
import nbdload

files = {kind: harness.path(f"result.{kind}") for kind in ("markdown", "json", "svg", "series")}


def bench(*arguments):
    return subprocess.run([os.path.join(harness.SOURCE, "scripts/bench"), "--build", harness.BUILD, "--size", "64",
                           "--seconds", "0.3", "--directory", harness.directory, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)


if not os.path.exists(nbdload.PROGRAM):
    harness.skip("nbdload is not built")
run = bench("--rounds", "2", "--loads", "flush-8,disks-32,beside-bulk,beside-4k-disk,read-beside,sustained", "--servers", "memory,file",
            *(word for kind, file in files.items() for word in (f"--{kind}", file)))
harness.expect(run.returncode == 0, run)
with open(files["markdown"]) as file:
    harness.expect(file.read() == run.stdout, run.stdout)
harness.expect("| 4 KiB write + flush, 8 clients | per second |" in run.stdout, run.stdout)
harness.expect("memory, disks-32: has one disk" in run.stdout, run.stdout)
with open(files["json"]) as file:
    told = json.load(file)
rounds = [(r["load"], r["server"], r["round"]) for r in told["results"]]
# In turns, and the first one of a round is not always the same.
harness.expect(rounds[:4] == [("flush-8", "memory", 0), ("flush-8", "file", 0), ("flush-8", "file", 1), ("flush-8", "memory", 1)],
               rounds)
harness.expect(len(rounds) == 20, rounds)
for entry in told["summary"]:
    if entry["server"] == "file":
        harness.expect(entry["ratio"] == 1 and entry["rounds"] == 2, entry)
xml.dom.minidom.parse(files["svg"])
lines = xml.dom.minidom.parse(files["series"]).getElementsByTagName("polyline")
harness.expect(len(lines) == 2, "one line a server")
harness.expect(any(sum(s["operations"] for s in r["series"]) > 0 for r in told["results"] if r["load"] == "sustained"), told)
harness.expect(not [f for f in os.listdir(harness.directory) if f.startswith("bench.")], "files are left")

# A server that fails is not passed over.
run = bench("--rounds", "1", "--loads", "flush-8", "--servers", "memory,file+no-such-parameter=1")
harness.expect(run.returncode == 1 and "no-such-parameter" in run.stdout, run)
run = bench("--loads", "no-such-load")
harness.expect(run.returncode == 2 and "no-such-load" in run.stderr, run)

def slow_disks():
    with open("/proc/mounts") as mounts:
        return {line for line in mounts if "slow-disk" in line}


# On a slow disk, of which nothing is left.
others = slow_disks()
if os.geteuid() == 0 and os.path.exists("/dev/fuse") and os.path.exists(os.path.join(harness.BUILD, "tests/slow/slowfs")):
    run = bench("--disk", "ram", "--rounds", "1", "--loads", "flush-8", "--servers", "file")
    harness.expect(run.returncode == 0 and "| 4 KiB write + flush, 8 clients | per second |" in run.stdout, run)
    harness.expect(not slow_disks() - others, "a slow disk is left")
run = bench("--disk", "tape")
harness.expect(run.returncode == 2 and "tape" in run.stderr, run)
