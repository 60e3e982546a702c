#!/bin/bash
# Over TCP, on the loopback address.
. "$(dirname "$0")/../lib.sh"

make_image 8M
port=$(/usr/bin/python3 -c '
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
uri=nbd://127.0.0.1:$port

start_tcp() {
    rm -f "$dir/pid"
    nbdkit -f -P "$dir/pid" -i 127.0.0.1 -p "$port" "$plugin" file="$image" </dev/null >>"$log" 2>&1 &
    server=$!
    servers+=("$server")
    eventually 30 test -s "$dir/pid" || fail 'the server did not start'
}

start_tcp
nbd_script <<'END'
h.pwrite(b"a" * 4096, 4096)
END
kill_server
start_tcp
nbd_script <<'END'
assert h.pread(4096, 4096) == b"a" * 4096
END
stop_server
