#!/bin/bash
# Relative paths, in the background too (a daemon changes its directory).
. "$(dirname "$0")/../lib.sh"

mkdir images journals
make_image 8M images/disk.img

start() {
    nbdkit "$@" -P "$dir/pid" -U "$socket" "$plugin" images/disk.img journal=journals/disk.journal
    find_daemon
}

start
nbd_script <<'END'
h.pwrite(b"a" * 4096, 4096)
END
[ -s journals/disk.journal ] || fail 'the journal is elsewhere'
kill -9 "$server"
wait_gone
rm -f "$socket" "$dir/pid"

start
nbd_script <<'END'
assert h.pread(4096, 4096) == b"a" * 4096
END
kill -TERM "$server"
wait_gone
expect_equal image "$(printf 'a%.0s' {1..4096})" "$(tail -c +4097 images/disk.img | head -c 4096)"
