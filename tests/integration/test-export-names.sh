#!/bin/bash
# Odd export names: each of them is our one disk or a clean refusal, and the server lives.
. "$(dirname "$0")/../lib.sh"

make_image 1M
start_server
cat >names.py <<'END'
import os
socket = os.environ["SOCKET"]
for name in ("", "a", "b" * 24, "c" * 255, "d" * 1024, "e" * 4096, "../x", "a/b", "%s%n", "h\u00e4\u20ac", "new\nline"):
    other = nbd.NBD()
    other.set_export_name(name)
    try:
        other.connect_unix(socket)
    except nbd.Error as error:
        print(f"refused: {name[:20]!r}: {error}")
        continue
    assert other.get_size() == 1 << 20
    other.pwrite(b"x", 0)
    other.shutdown()
END
SOCKET=$socket nbdsh -c - <names.py
expect_equal size $((1 << 20)) "$(nbdinfo --size "$uri")"
stop_server
