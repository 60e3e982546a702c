#!/bin/bash
# The partition filter: one partition of the disk, and the others stay as they are.
. "$(dirname "$0")/../lib.sh"

requires sfdisk qemu-io
requires_filter partition

make_image 32M
sfdisk -q "$image" <<'END'
label: gpt
start=2048, size=16384
start=20480, size=16385
END
cp "$image" before

start_server --filter=partition -- file="$image" partition=2
expect_equal size $((16385 * 512)) "$(nbdinfo --size "$uri")"
qemu-io -f raw "$uri" -c 'write -P 0x41 0 64k' -c "write -f -P 0x42 $((16384 * 512)) 512"
kill_server
start_server --filter=partition -- file="$image" partition=2
qemu-io -f raw "$uri" -c 'read -P 0x41 0 64k' -c "read -P 0x42 $((16384 * 512)) 512"
stop_server

# The first and the last byte written, where they belong; all else as before.
qemu-io -f raw "$image" -c "read -P 0x41 $((20480 * 512)) 64k" -c "read -P 0x42 $(((20480 + 16384) * 512)) 512"
changed=$({ cmp -l "$image" before || true; } | awk 'NR == 1 { first = $1 } END { print first - 1, $1 - 1, NR }')
expect_equal 'changed bytes (first, last, number)' \
    "$((20480 * 512)) $(((20480 + 16385) * 512 - 1)) $((65536 + 512))" "$changed"
