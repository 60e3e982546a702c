#!/bin/bash
# In the background, as nbdkit starts by default: start errors reach the caller, the rest is the same.
# Also with a private umask, and in a directory that is gone afterwards.
. "$(dirname "$0")/../lib.sh"

make_image 8M

# An error before the fork: its text and a bad exit code, and nothing listens.
text=$(expect_failure nbdkit -U "$socket" "$plugin" file="$dir/missing.img")
expect_match "$text" 'missing\.img'
[ ! -e "$socket" ] || fail 'it listens'

start_daemon() {
    mkdir "$dir/gone"
    (cd "$dir/gone" && umask 077 && nbdkit -P "$dir/pid" -U "$socket" "$plugin" file="$image")
    rmdir "$dir/gone"
    find_daemon
}

start_daemon
nbd_script <<'END'
h.pwrite(b"f" * 4096, 0, nbd.CMD_FLAG_FUA)
h.pwrite(b"u" * 4096, 4096)
END
kill -9 "$server"
wait_gone
rm -f "$socket" "$dir/pid"

start_daemon
nbd_script <<'END'
assert h.pread(8192, 0) == b"f" * 4096 + b"u" * 4096
END
kill -TERM "$server"
wait_gone
expect_equal image "$(printf 'f%.0s' {1..4096}; printf 'u%.0s' {1..4096})" "$(head -c 8192 "$image")"
