#!/bin/bash
# An image that changed its size: fine when its journal is empty; with data waiting it is refused, untouched,
# and the size is named.
. "$(dirname "$0")/../lib.sh"

make_image 8M
start_server
nbd_script <<'END'
h.pwrite(b"a" * 4096, 8388608 - 4096)
END
stop_server
truncate -s 10M "$image"
start_server
expect_equal size $((10 << 20)) "$(nbdinfo --size "$uri")"
nbd_script <<'END'
assert h.pread(4096, 8388608 - 4096) == b"a" * 4096
h.pwrite(b"b" * 4096, 10485760 - 4096)
END
stop_server
truncate -s 9M "$image"
start_server
expect_equal size $((9 << 20)) "$(nbdinfo --size "$uri")"
nbd_script <<'END'
h.pwrite(b"c" * 4096, 9437184 - 4096)
END
kill_server

for size in 8388608 12582912; do
    cp "$image" saved
    truncate -s $size "$image"
    sha256sum "$image" "$journal" >before
    text=$(expect_failure nbdkit -f -U "$socket" "$plugin" file="$image" </dev/null)
    expect_match "$text" "$size"
    sha256sum --quiet -c before
    truncate -s 9437184 "$image"
    cmp saved "$image"
done
start_server
nbd_script <<'END'
assert h.pread(4096, 9437184 - 4096) == b"c" * 4096
END
stop_server
