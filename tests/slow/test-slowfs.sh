#!/bin/bash
# The slow disk with a file system on it: bytes are kept, O_DIRECT works, requests are counted, and
# nothing is left of it in the end.
. "$(dirname "$0")/../lib.sh"
[ "$(id -u)" = 0 ] || skip 'only root may mount it'
[ -e /dev/fuse ] || skip 'there is no /dev/fuse'
losetup -f >/dev/null 2>&1 || skip 'there are no loop devices'
export SLOWFS=$JOURNAL_BUILD/tests/slow/slowfs
slow_disk=$JOURNAL_SOURCE/scripts/slow-disk
disk=$dir/slow

counted() {
    "$slow_disk" stats "$disk" | sed -n "s/^$1 //p"
}

"$slow_disk" up "$disk" 128
on_exit '"$slow_disk" down "$disk" 2>/dev/null'
loop=$(cat "$disk/loop")
head -c 1M /dev/urandom >"$dir/bytes"

for profile in ram nvme ssd hdd net; do
    "$slow_disk" set "$disk" $profile
    expect_equal profile $profile "$(cat "$disk/fuse/profile")"
    expect_equal writes 0 "$(counted writes)"
    dd if="$dir/bytes" of="$disk/mnt/file" bs=64k oflag=direct conv=fsync status=none
    dd if="$disk/mnt/file" of="$dir/back" bs=64k iflag=direct status=none
    cmp "$dir/bytes" "$dir/back"
    [ "$(counted written_bytes)" -ge 1048576 ]
    [ "$(counted read_bytes)" -ge 1048576 ]
    [ "$(counted flushes)" -ge 1 ]
    [ "$(counted busy_us)" -gt 0 ]
    rm "$disk/mnt/file"
done
expect_failure "$slow_disk" set "$disk" tape
expect_equal profile net "$(cat "$disk/fuse/profile")"

"$slow_disk" down "$disk"
[ ! -e "$disk" ]
expect_failure losetup "$loop"
