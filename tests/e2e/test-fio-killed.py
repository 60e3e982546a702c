#!/usr/bin/python3
"""fio writes with several jobs while the server is killed: after its start every write that fio saw
answered is there, and each of the others is there whole or not at all.

fio stands on a loop device, since its own nbd engine never ends when its server is gone.
"""
import glob
import os
import re
import subprocess

import attached
import harness

attached.requires()
harness.requires_program("fio")
seed = int(os.environ.get("JOURNAL_TEST_SEED") or 7)
JOBS, JOB_SIZE = 4, 8 << 20

server = harness.Server(JOBS * JOB_SIZE, parameters=["journal-size=4M"])
disk = attached.Disk(server)


def fio(*options):
    """Each job writes every byte of its part once, in requests of random length, in random order."""
    job = f"""[global]
filename={disk.device}
ioengine=libaio
direct=1
size={JOB_SIZE}
offset_increment={JOB_SIZE}
bsrange=512-16k
iodepth=8
fsync=32
verify=crc32c
verify_state_save=0
randseed={seed}
numjobs={JOBS}
[disk]
rw=randwrite
"""
    with open(harness.path("job"), "w") as file:
        file.write(job)
    out = open(harness.path("out"), "w")
    return subprocess.Popen(["fio", *options, harness.path("job")], cwd=harness.directory, stdin=subprocess.DEVNULL,
                            stdout=out, stderr=out)


def output():
    with open(harness.path("out"), errors="replace") as out:
        return out.read()


def allocated():
    used = 0

    def count(context, offset, extents, error):
        nonlocal used
        used += sum(length for length, flags in zip(extents[::2], extents[1::2]) if not flags & 1)

    server.connect().block_status(JOBS * JOB_SIZE, 0, count)
    return used


def answered():
    """fio's logs have a line "time, latency, direction, length, offset" for each answered request."""
    offsets = set()
    for name in glob.glob(harness.path("lat_clat.*.log")):
        with open(name) as lines:
            for line in lines:
                fields = [int(field, 0) for field in line.split(",")]
                if fields[2] == 1:
                    offsets.add(fields[4])
        os.unlink(name)
    return offsets


for mebibytes in (1, 6, 20):
    disk.attach()
    # Nothing of the last round is left.
    server.connect().zero(JOBS * JOB_SIZE, 0)
    writer = fio("--do_verify=0", "--rate_iops=1000", "--write_lat_log=lat", "--log_offset=1")
    attached.eventually("fio writes", lambda: allocated() >= mebibytes << 20 or writer.poll() is not None)
    server.kill()
    writer.wait()
    done = answered()
    harness.expect(len(done) > 20, "fio saw no answers:", output())
    disk.drop()

    server.start()
    disk.attach()
    fio("--verify_only=1", "--continue_on_error=verify").wait()
    missing, wrong = set(), []
    for line in output().splitlines():
        if "verify" not in line:
            continue
        # Zeroes, instead of what fio begins each block with: it was never written.
        found = re.match(r"verify: bad magic header 0, .* offset (\d+), length", line)
        missing.add(int(found[1])) if found else wrong.append(line)
    print(f"{len(done)} writes answered, {len(missing)} missing")
    harness.expect(not wrong, "a write is there in part:", wrong[:5])
    harness.expect(not done & missing, "answered writes are missing, at", sorted(done & missing)[:5])
    disk.detach()
server.stop()
