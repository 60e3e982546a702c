#!/bin/bash
# A second server on the same image or journal is refused, by whatever path, and the holder is named;
# the first one is not disturbed. kill -9 leaves nothing to clean up.
. "$(dirname "$0")/../lib.sh"

make_image 8M
ln -s "$image" link.img
mkdir sub
ln "$image" sub/hard.img
make_image 8M other.img
start_server
holder=$(cat "$dir/pid")
nbd_script <<'END'
h.pwrite(b"a" * 4096, 0, nbd.CMD_FLAG_FUA)
END

for parameters in "file=$image" "file=$dir/link.img" "file=$dir/sub/hard.img" \
    "file=$image journal=$dir/other.journal" "file=$dir/other.img journal=$journal"; do
    text=$(expect_failure nbdkit -f -U "$dir/second.sock" "$plugin" $parameters </dev/null)
    expect_match "$text" "$holder"
    [ ! -e "$dir/second.sock" ] || fail 'it listens'
done
[ ! -e other.journal ] && [ ! -e sub/hard.img.journal ] || fail 'a refused server created a journal'
nbd_script <<'END'
assert h.pread(4096, 0) == b"a" * 4096
h.pwrite(b"b" * 4096, 0, nbd.CMD_FLAG_FUA)
END
kill_server

start_server
nbd_script <<'END'
assert h.pread(4096, 0) == b"b" * 4096
END
stop_server
