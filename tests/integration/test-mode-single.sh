#!/bin/bash
# nbdkit -s: one client on standard input and output, then a clean stop.
. "$(dirname "$0")/../lib.sh"

make_image 8M

cat >client.py <<'END'
import os
command = ["nbdkit", "-s", os.environ["PLUGIN"], "file=" + os.environ["IMAGE"]]
h.connect_command(command)
if os.environ["DO"] == "write":
    h.pwrite(b"a" * 4096, 4096)
    h.pwrite(b"b" * 4096, 8192, nbd.CMD_FLAG_FUA)
else:
    assert h.pread(8192, 4096) == b"a" * 4096 + b"b" * 4096
h.shutdown()
END
export PLUGIN=$plugin IMAGE=$image
DO=write nbdsh -c - <client.py
DO=read nbdsh -c - <client.py

# The client is gone: the server ends, and leaves the image complete.
eventually 30 eval '[ "$(head -c 8193 "$image" | tail -c 4097)" = "$(printf "a%.0s" {1..4096})b" ]' ||
    fail 'the image is not complete'
