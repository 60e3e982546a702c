#!/bin/bash
# The server below a kernel NBD device is killed, and stopped, several times and started again. With
# dead_conn_timeout and somebody who connects anew (nbd-keep) the file system goes on after a moment and
# sees no error, and every file that it flushed is there (P0, P1).
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_nbd_guest

make_image 128M
make_guest '
/programs/nbd-keep $SERVER 0 4 60 &
while [ "$(cat /sys/block/nbd0/size)" = 0 ]; do sleep 0.1; done
/programs/mke2fs -q -t ext4 -E nodiscard /dev/nbd0
mount -t ext4 -o discard /dev/nbd0 /mnt
for i in $(seq 80); do
    # Something that is in flight and not flushed, and something that is.
    dd if=/dev/urandom of=/mnt/other$((i % 4)) bs=64k count=$((i % 9 + 1)) 2>/dev/null &
    dd if=/dev/urandom of=/mnt/file$i bs=10k count=$((i % 7 + 1)) conv=fsync 2>/dev/null
    echo "LEDGER: $(sha256sum </mnt/file$i | cut -d" " -f1)  file$i"
    wait $!
done
umount /mnt
echo 3 >/proc/sys/vm/drop_caches
/programs/e2fsck -fn /dev/nbd0
/programs/nbd-client -d /dev/nbd0
'
start_network_server file="$image" journal-size=2M
boot_network_guest

reached() {
    grep -q "LEDGER: .*file$1[^0-9]" console || ! kill -0 "$guest"
}
for step in 2 15 29 41 54 66; do
    eventually 240 reached $step || { cat console; fail 'the guest stands still'; }
    kill_server
    # Long enough for the guest to notice.
    sleep 0.3
    start_network_server file="$image"
done
await_guest
expect_equal 'files of the guest' 80 "$(said LEDGER | wc -l)"
[ "$(grep -c 'KEEP: connected again' console)" -ge 6 ] || { cat console; fail 'the connections were not made anew'; }
said LEDGER >sums
stop_server

e2fsck -fn "$image" >out 2>&1 || { cat out; fail 'the file system is damaged'; }
mkdir files
debugfs -R 'rdump / files' "$image" >out 2>&1
cd files
sha256sum --quiet -c ../sums
