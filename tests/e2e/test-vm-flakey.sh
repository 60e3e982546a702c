#!/bin/bash
# The journal's device fails all writes for a while (the kernel's dm-flakey, in a virtual machine). No flush is
# answered with success then, nor afterwards though the device is well again (P4). Started anew,
# everything that was flushed before is there (P1).
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_vm

guest_modules='dm-flakey nbd'
guest_programs="nbd-client dmsetup nbdkit $plugin $nbdjournal dd sync"
make_guest '
mkdir /dev/shm
mount -t tmpfs shm /dev/shm
size=$(cat /sys/block/vda/size)
dm() {
    /programs/dmsetup --noudevrules --noudevsync "$@"
}
table() {
    dm suspend flaky
    dm load flaky --table "0 $size $1"
    dm resume flaky
}
serve() {
    rm -f /pid /sock
    /programs/nbdkit -f -P /pid -U /sock /programs/nbdkit-journal-plugin.so file=/disk.img journal=/dev/dm-0 &
    while [ ! -s /pid ]; do sleep 0.1; done
    /programs/nbd-client -unix /sock /dev/$1
}
# flushed NUMBER DEVICE: a block of its own, written and flushed.
flushed() {
    yes "block $1" | head -c 4096 >/bytes
    /programs/dd if=/bytes of=/dev/$2 bs=4096 seek=$1 oflag=direct count=1 2>/dev/null && /programs/sync /dev/$2
}
dm create flaky --table "0 $size linear /dev/vda 0"
/programs/nbdjournal create /dev/dm-0
truncate -s 8M /disk.img
serve nbd0
for i in 1 2 3 4 5; do flushed $i nbd0; done
table "flakey /dev/vda 0 0 3600 1 error_writes"
for i in 11 12 13; do
    ! flushed $i nbd0 || echo "LIE: $i"
done
table "linear /dev/vda 0"
for i in 14 15; do
    ! flushed $i nbd0 || echo "LIE: $i"
done
kill -9 $(cat /pid)
while [ -d /proc/$(cat /pid) ]; do sleep 0.1; done
serve nbd1
for i in 1 2 3 4 5; do
    yes "block $i" | head -c 4096 >/bytes
    /programs/dd if=/dev/nbd1 bs=4096 skip=$i count=1 iflag=direct 2>/dev/null | cmp - /bytes && echo "KEPT: $i"
done
flushed 6 nbd1 && echo "KEPT: 6"
'
truncate -s 64M journal-file
_boot -drive file=journal-file,format=raw,if=none,id=a -device virtio-blk-pci,drive=a
wait "$guest" || { cat console; fail 'qemu failed'; }
grep -q 'GUEST: done' console || { cat console; fail 'the guest did not do its work'; }
grep -q 'from now on every write and flush fails' console || { cat console; fail 'the journal did not fail'; }
expect_equal 'flushes answered though the device failed' '' "$(said LIE)"
expect_equal 'what is there afterwards' '1 2 3 4 5 6' "$(said KEPT | tr '\n' ' ' | sed 's/ $//')"
