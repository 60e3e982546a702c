#!/bin/bash
# A virtual machine with its disk on us makes a file system, works on it and turns itself off; after a
# clean stop the image alone has it all.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_vm

make_image 256M
make_guest '
/programs/mke2fs -q -t ext4 /dev/vda
mount -t ext4 -o discard /dev/vda /mnt
for i in 1 2 3 4 5 6 7 8; do
    dd if=/dev/urandom of=/mnt/file$i bs=1M count=2 conv=fsync 2>/dev/null
done
cp -r /programs /mnt/tree
rm /mnt/file2 /mnt/file5
fstrim /mnt
dd if=/dev/urandom of=/mnt/file2 bs=333 count=1000 2>/dev/null
sync
cd /mnt
find . -type f | while read file; do echo "SUM: $(sha256sum $file)"; done
cd /
umount /mnt
/programs/e2fsck -fn /dev/vda
'
start_server
run_guest
said SUM >sums
expect_equal "files of the guest" 9 "$(wc -l <sums)"
stop_server

expect_equal marks '' "$(getfattr -d "$image" 2>/dev/null)"
rm -f "$journal"
e2fsck -fn "$image" >out 2>&1 || { cat out; fail 'the file system is damaged'; }
mkdir files
debugfs -R 'rdump / files' "$image" >out 2>&1
cd files
sha256sum --quiet -c ../sums
