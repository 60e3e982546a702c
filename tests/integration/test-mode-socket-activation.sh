#!/bin/bash
# systemd socket activation: the socket is handed over, the rest is the same.
. "$(dirname "$0")/../lib.sh"

make_image 8M

cat >client.py <<'END'
import os, signal
h.connect_systemd_socket_activation(["nbdkit", "-P", os.environ["PIDFILE"], os.environ["PLUGIN"],
                                     "file=" + os.environ["IMAGE"]])
if os.environ["DO"] == "write":
    h.pwrite(b"a" * 4096, 4096)
    h.pwrite(b"b" * 4096, 8192, nbd.CMD_FLAG_FUA)
    os.kill(int(open(os.environ["PIDFILE"]).read()), signal.SIGKILL)
else:
    assert h.pread(8192, 4096) == b"a" * 4096 + b"b" * 4096
    h.shutdown()
    os.kill(int(open(os.environ["PIDFILE"]).read()), signal.SIGTERM)
END
export PLUGIN=$plugin IMAGE=$image PIDFILE=$dir/pid
DO=write nbdsh -c - <client.py
DO=read nbdsh -c - <client.py
