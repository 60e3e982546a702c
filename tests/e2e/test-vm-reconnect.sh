#!/bin/bash
# The server of a running virtual machine is killed several times and started again: the guest goes on
# after a moment and sees no error, and nothing that was answered is missing. (qemu repeats what was not
# answered, and relies on the rest.)
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_vm

make_image 128M
make_guest '
/programs/mke2fs -q -t ext4 -E nodiscard /dev/vda
mount -t ext4 -o discard /dev/vda /mnt
for i in $(seq 60); do
    dd if=/dev/urandom of=/mnt/file$((i % 20)) bs=64k count=$((i % 7 + 1)) 2>/dev/null
    [ $((i % 3)) = 0 ] || sync
    [ $((i % 9)) != 0 ] || rm /mnt/file$((i % 20))
    echo "STEP: $i"
done
sync
echo 3 >/proc/sys/vm/drop_caches
cd /mnt
find . -type f | while read file; do echo "SUM: $(sha256sum $file)"; done
cd /
umount /mnt
/programs/e2fsck -fn /dev/vda
'
start_server -- file="$image" journal-size=2M
boot_guest ,reconnect-delay=60

reached() {
    grep -q "STEP: $1" console || ! kill -0 "$guest"
}
for step in 2 11 23 30 42 55; do
    eventually 120 reached $step || { cat console; fail 'the guest stands still'; }
    kill_server
    # Long enough for the guest to notice.
    sleep 0.3
    start_server -- file="$image"
done
await_guest
grep -q 'STEP: 60' console || { cat console; fail 'the guest did not come to the end'; }
said SUM >sums
stop_server

e2fsck -fn "$image" >out 2>&1 || { cat out; fail 'the file system is damaged'; }
mkdir files
debugfs -R 'rdump / files' "$image" >out 2>&1
cd files
sha256sum --quiet -c ../sums
