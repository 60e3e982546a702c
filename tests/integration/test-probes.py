#!/usr/bin/python3
"""The static probes are in the plugin, with the arguments that the manual lists, and fire with what happens."""
import os
import re
import subprocess
import tempfile
import threading

import nbd

import harness

harness.requires_program("readelf")
harness.requires_program("gdb")
notes = subprocess.run(["readelf", "-n", harness.PLUGIN], capture_output=True, text=True, check=True).stdout
if "stapsdt" not in notes:
    harness.skip("built without sys/sdt.h")

# Their number of arguments is that of the manual.
probes = {}
for name, arguments in re.findall(r"Provider: nbdkit_journal\s+Name: (\w+)\s+.*?\s+Arguments:(.*)", notes):
    probes.setdefault(name, set()).add(len(arguments.split()))
with open(os.path.join(harness.SOURCE, "docs/nbdkit-journal-plugin.1.pod")) as manual:
    section = re.search(r"^=head1 PROBES$(.*?)^=head1", manual.read(), re.M | re.S).group(1)
documented = {name: {len(arguments.split(","))} for name, arguments in re.findall(r"^    (\w+)\((.*?)\)", section, re.M)}
harness.expect(probes == documented, "in the plugin:", probes, "in the manual:", documented)
harness.expect(len(probes) == 6, probes)

# A debugger sees them fire.
server = harness.Server("16M", parameters=["journal-size=1M"])
handle = server.connect()
script = harness.path("script")
with open(script, "w") as out:
    out.write("set pagination off\nset breakpoint pending on\nhandle SIGPIPE nostop\n")
    for name in probes:
        arguments = sorted(probes[name])[0]
        wanted = " ".join("%ld" for _ in range(arguments))
        values = ", ".join(f"(long)$_probe_arg{i}" for i in range(arguments))
        out.write(f"break -probe-stap {harness.PLUGIN}:nbdkit_journal:{name}\ncommands\nsilent\n"
                  f'printf "FIRED {name} {wanted}\\n", {values}\ncontinue\nend\n')
    out.write('printf "READY\\n"\ncontinue\n')
with tempfile.TemporaryFile("w+") as errors:
    gdb = subprocess.Popen(["gdb", "-nx", "-q", "-batch", "-p", str(server.pid), "-x", script], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=errors, text=True)
    lines = []
    for line in gdb.stdout:
        if line.startswith("READY"):
            break
        lines.append(line)
    else:
        errors.seek(0)
        words = errors.read()
        if "ptrace" in words:
            harness.skip("no process may be traced here")
        raise AssertionError("gdb: " + "".join(lines) + words)
reader = threading.Thread(target=lambda: lines.extend(gdb.stdout))
reader.start()
for number in range(8):
    handle.pwrite(b"p" * 32768, number << 15)
# Many at once, more than the journal has room for.
cookies = [handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(32768)), number << 15) for number in range(100)]
while handle.aio_in_flight() > 0:
    handle.poll(-1)
harness.expect(all(handle.aio_command_completed(cookie) for cookie in cookies), "a write failed")
handle.pwrite(b"q" * 512, 4096)
handle.flush()
handle.trim(8192, 65536)
handle.shutdown()
server.handles.clear()
server.process.terminate()
server.process.wait()
server.process = None
gdb.wait()
reader.join()
fired = {}
for line in lines:
    if match := re.match(r"FIRED (\w+) (.*)", line):
        fired.setdefault(match.group(1), []).append([int(n) for n in match.group(2).split()])
harness.expect(set(fired) == set(probes), "fired:", {name: len(seen) for name, seen in fired.items()})
admitted = [tuple(a[2:]) for a in fired["admit"]]
harness.expect(admitted[:8] == [(1, n << 15, 32768) for n in range(8)], admitted)
harness.expect(sorted(admitted[8:108]) == [(1, n << 15, 32768) for n in range(100)], admitted)
harness.expect(admitted[108:] == [(1, 4096, 512), (2, 65536, 8192)], admitted)
lsns = [a[0] for a in fired["admit"]]
harness.expect(lsns == sorted(set(lsns)), "in order:", lsns)
harness.expect([c[0] for c in fired["commit_begin"]][:len(fired["commit_end"])] == [c[0] for c in fired["commit_end"]],
               "numbers of commits")
harness.expect(all(ns > 0 and error == 0 for _, ns, error in fired["commit_end"]), fired["commit_end"])
harness.expect(all(ns > 0 and error == 0 for _, ns, error in fired["checkpoint_end"]), fired["checkpoint_end"])
# What happens right before the process's end may be missed.
harness.expect(0 <= len(fired["checkpoint_begin"]) - len(fired["checkpoint_end"]) <= 1,
               fired["checkpoint_begin"], fired["checkpoint_end"])
harness.expect(all(used <= ring for used, ring in fired["checkpoint_begin"]), fired["checkpoint_begin"])
harness.expect(all(ns > 0 and error == 0 for ns, error in fired["throttle"]), fired["throttle"])
