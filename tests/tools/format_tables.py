"""The tables of nbdjournal-format(5), and the checksum, for tests that make or read a journal's bytes by
nothing but the manual."""
import ctypes
import ctypes.util
import os
import re
import sys

SOURCE = os.environ["JOURNAL_SOURCE"]
BUILD = os.environ["JOURNAL_BUILD"]
TOOL = BUILD + "/tools/nbdjournal/nbdjournal"
MAKE = BUILD + "/tests/support/make-journal"

name = ctypes.util.find_library("xxhash")
if name is None:
    print("skip: libxxhash is not installed")
    sys.exit(77)
xxhash = ctypes.CDLL(name)
xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
xxhash.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def checksum(seed, data):
    return xxhash.XXH3_64bits_withSeed(bytes(data), len(data), seed)


def table(heading):
    """[(offset, bytes, field, value or None)] of the table below this heading, without gaps."""
    text = open(SOURCE + "/docs/nbdjournal-format.5.pod").read()
    section = text.split("\n" + heading + "\n")[1]
    rows = section.split("    offset  bytes  field\n")[1].split("\n\n")[0]
    fields, at = [], 0
    for row in rows.split("\n"):
        m = re.match(r" +(\d+) +(\d+) +(\w+)(?:: (.*))?$", row)
        assert m, row
        offset, count = int(m[1]), int(m[2])
        assert offset == at, f"{heading}: a gap before {row}"
        at += count
        fields.append((offset, count, m[3], m[4]))
    return fields, at


def decode(fields, data):
    out = {}
    for offset, count, field, value in fields:
        raw = data[offset : offset + count]
        if field == "zero":
            assert not any(raw), f"zero at {offset}"
        elif field == "magic":
            assert raw == value.strip('"').encode(), raw
        elif field in ("uuid", "name", "staging_boot"):
            out[field] = raw
        else:
            out[field] = int.from_bytes(raw, "little")
            if value is not None:
                assert out[field] == int(value, 0), f"{field} is {out[field]}"
    return out
