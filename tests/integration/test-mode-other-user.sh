#!/bin/bash
# nbdkit -u: image and journal are opened, and the journal is created, before root is given up.
. "$(dirname "$0")/../lib.sh"

requires_root
# Where the other user has no rights at all; he only writes the process id.
mkdir -m 700 private
image=$dir/private/disk.img
make_image 8M
chmod 600 "$image"
chmod 777 "$dir"

serve_as_nobody() {
    start_server -u nobody -g nogroup
    expect_equal 'user of the server' nobody "$(stat -c %U "/proc/$server")"
}

serve_as_nobody
nbd_script <<'END'
h.pwrite(b"a" * 4096, 4096)
h.pwrite(b"b" * 4096, 8192, nbd.CMD_FLAG_FUA)
END
kill_server

serve_as_nobody
nbd_script <<'END'
assert h.pread(8192, 4096) == b"a" * 4096 + b"b" * 4096
h.pwrite(b"c" * 4096, 4096)
END
stop_server
expect_equal image "$(printf 'c%.0s' {1..4096}; printf 'b%.0s' {1..4096})" \
    "$(tail -c +4097 "$image" | head -c 8192)"

# Drained and unmarked: it can be served alone.
nbdkit -U - file "$image" --run 'nbdinfo --size "$uri"' >/dev/null
expect_equal marks '' "$(getfattr --only-values -d "$image" 2>/dev/null)"
