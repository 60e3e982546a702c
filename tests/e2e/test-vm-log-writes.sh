#!/bin/bash
# Image and journal lie in an ext4 on a device of which the kernel (dm-log-writes, in a virtual machine) logs
# every write and flush; the server runs there too, the kernel's NBD device is its client. Then the
# power is cut between the kernel's writes: the disk is as after a prefix of the requests, with all that was
# flushed (P1, P2, P3).
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_root
requires losetup mount
losetup -f >/dev/null 2>&1 || skip 'no loop device'
requires_vm

steps=40
guest_modules='dm-log-writes nbd'
guest_programs="nbd-client dmsetup nbdkit $plugin dd sync blkdiscard"
# The steps, as log_writes.py has them.
requests=$(cd "$JOURNAL_SOURCE/tests/e2e" && python3 -c '
import log_writes, sys
for number, requests in enumerate(log_writes.steps(int(sys.argv[1])), 1):
    for block, blocks, byte in requests:
        print(f"trim {block} {blocks}" if byte == 0 else f"put {block} {blocks} {byte}")
    print(f"flushed {number}")
' $steps)
make_guest "
mkdir /dev/shm
mount -t tmpfs shm /dev/shm
dm() {
    /programs/dmsetup --noudevrules --noudevsync \"\$@\"
}
dm create logged --table \"0 \$(cat /sys/block/vda/size) log-writes /dev/vda /dev/vdb\"
/programs/mke2fs -q -t ext4 -J size=4 /dev/dm-0
mount -t ext4 /dev/dm-0 /mnt
truncate -s 2M /mnt/disk.img
/programs/nbdkit -P /pid -U /sock /programs/nbdkit-journal-plugin.so file=/mnt/disk.img journal-size=1M commit-interval=0.05
while [ ! -s /pid ]; do sleep 0.1; done
/programs/nbd-client -unix /sock /dev/nbd0 -C 4
/programs/dd if=/dev/nbd0 of=/dev/null bs=4k count=1 2>/dev/null
sync
dm message logged 0 mark begin
put() {
    head -c \$((\$2 * 4096)) /dev/zero | tr '\\0' \"\\\\\$(printf %o \$3)\" >/bytes
    /programs/dd if=/bytes of=/dev/nbd0 bs=\$((\$2 * 4096)) seek=\$((\$1 * 4096)) oflag=direct,seek_bytes count=1 2>/dev/null
}
trim() {
    /programs/blkdiscard -f -o \$((\$1 * 4096)) -l \$((\$2 * 4096)) /dev/nbd0
}
flushed() {
    /programs/sync /dev/nbd0
    dm message logged 0 mark step-\$1
}
$requests
/programs/nbd-client -d /dev/nbd0
kill \$(cat /pid)
while [ -d /proc/\$(cat /pid) ]; do sleep 0.1; done
umount /mnt
dm remove logged
"
truncate -s 48M data-file
truncate -s 2G log-file
_boot -drive file=data-file,format=raw,if=none,id=a -device virtio-blk-pci,drive=a \
    -drive file=log-file,format=raw,if=none,id=b -device virtio-blk-pci,drive=b
await_guest
on_exit 'umount mounted 2>/dev/null'
seed=${JOURNAL_TEST_SEED-$RANDOM}
echo "JOURNAL_TEST_SEED=$seed"
python3 "$JOURNAL_SOURCE/tests/e2e/log_writes.py" log-file $((48 << 20)) $((2 << 20)) "${JOURNAL_TEST_ROUNDS-120}" "$seed"
