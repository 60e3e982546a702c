#!/bin/bash
# The kernel's own NBD client, with four connections, as nbd-client makes it: a file system, files that are
# flushed, trims; after a clean stop the image alone has it all.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_nbd_guest

make_image 256M
make_guest '
set -- $SERVER
/programs/nbd-client $1 $2 /dev/nbd0 -C 4
/programs/mke2fs -q -t ext4 /dev/nbd0
mount -t ext4 -o discard /dev/nbd0 /mnt
for i in 1 2 3 4 5 6 7 8; do
    dd if=/dev/urandom of=/mnt/file$i bs=1M count=2 conv=fsync 2>/dev/null &
done
wait
cp -r /programs /mnt/tree
rm /mnt/file2 /mnt/file5
fstrim /mnt
sync
cd /mnt
find . -type f | while read file; do echo "SUM: $(sha256sum $file)"; done
cd /
umount /mnt
/programs/e2fsck -fn /dev/nbd0
/programs/nbd-client -d /dev/nbd0
'
start_network_server
boot_network_guest
await_guest
said SUM >sums
[ "$(wc -l <sums)" -ge 10 ] || fail 'too few files'
stop_server

rm "$journal"
e2fsck -fn "$image" >out 2>&1 || { cat out; fail 'the file system is damaged'; }
mkdir files
debugfs -R 'rdump / files' "$image" >out 2>&1
cd files
sha256sum --quiet -c ../sums
