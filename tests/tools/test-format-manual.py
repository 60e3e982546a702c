#!/usr/bin/python3
"""nbdjournal-format(5), to the byte: a decoder made of nothing but the tables of the manual reads a
journal, verifies every checksum, and finds the same records as nbdjournal dump."""
import json
import os
import subprocess
import tempfile

from format_tables import MAKE, TOOL, checksum, decode, table

with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    with open("image", "wb") as f:
        f.truncate(1 << 20)
    subprocess.run(["cp", "image", "expected"], check=True)
    for seed in ("1", "2"):
        subprocess.run([MAKE, "journal", "image", "expected", "records=40", "seed=" + seed],
                       check=True, stdout=subprocess.DEVNULL)
    journal = open("journal", "rb").read()
    info = json.loads(subprocess.check_output([TOOL, "info", "--json", "journal"]))
    dump = [json.loads(line)
            for line in subprocess.check_output([TOOL, "dump", "--json", "journal"]).splitlines()]

head, head_bytes = table("=head2 Header")
entry, entry_bytes = table("=head2 Image entry")
record, record_bytes = table("=head2 Record header")
assert (head_bytes, entry_bytes, record_bytes) == (4096, 256, 128)

copies = []
for at in (0, 65536):
    copy = decode(head, journal[at : at + 4096])
    covered = bytearray(journal[at : at + 4096 + 256 * copy["image_count"]])
    covered[4088:4096] = bytes(8)
    seed = int.from_bytes(copy["uuid"][:8], "little")
    assert checksum(seed, covered) == copy["checksum"], "superblock"
    copies.append((copy, at))
    assert copy["generation"] % 2 == (1 if at else 0)
sb, at = max(copies, key=lambda c: c[0]["generation"])
assert sb["uuid"].hex() == info["uuid"].replace("-", "")
assert sb["ring_bytes"] == info["ring_bytes"] and sb["epoch"] == info["epoch"]
image = decode(entry, journal[at + 4096 : at + 4096 + 256])
assert image["name"].rstrip(b"\0").decode() == info["images"][0]["path"]
assert image["size"] == 1 << 20 and image["kind"] == 1
assert image["uuid"].hex() == info["images"][0]["uuid"].replace("-", "")

# Along the chain, by the rules of VALIDITY.
KINDS = {1: "write", 2: "trim", 3: "zero", 4: "pad", 5: "epoch"}
end, chain, lsn, epoch = (sb["tail_position"], sb["tail_chain"], sb["tail_lsn"], sb["tail_epoch"])
found = []


def record_at(position):
    where = sb["ring_start"] + position % sb["ring_bytes"]
    raw = journal[where : where + 128]
    if raw[:4] != b"JREC":
        return None
    r = decode(record, raw)
    assert checksum(seed, raw[:120]) == r["header_sum"], "header_sum"
    payload = journal[where + 128 : where + 128 + r["payload_bytes"]]
    assert (checksum(seed, payload) if payload else 0) == r["payload_sum"], "payload_sum"
    return r if r["position"] == position else None


while True:
    r = record_at(end)
    if r is None or r["chain"] != chain or (r["kind"] != 5 and
                                            (r["epoch"] != epoch or r["lsn"] != lsn + 1)):
        r = record_at((end + sb["sector_bytes"] - 1) // sb["sector_bytes"] * sb["sector_bytes"])
        if r is None or r["kind"] != 5 or r["chain"] != chain:
            break
    if r["kind"] == 5:
        assert r["cut_lsn"] == lsn and r["epoch"] > epoch
        assert r["lsn"] == lsn + (r["epoch"] - epoch) * (1 + sb["ring_bytes"] // 128)
    found.append(r)
    end, chain, lsn, epoch = (r["position"] + r["span_bytes"], r["header_sum"], r["lsn"], r["epoch"])

assert len(found) == len(dump), (len(found), len(dump))
for r, d in zip(found, dump):
    assert KINDS[r["kind"]] == d["kind"]
    assert bool(r["flags"] & 1) == d["fua"]
    for field in ("lsn", "offset", "length", "durable_lsn", "position", "span_bytes", "epoch",
                  "time_us"):
        assert r[field] == d[field], field
assert sum(r["kind"] in (1, 2, 3) for r in found) == 80
