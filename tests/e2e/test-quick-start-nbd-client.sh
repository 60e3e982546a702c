#!/bin/bash
# The README's quick start for nbd-client, and the manual's, word by word, in a virtual machine whose kernel has
# an NBD device: a file system, a file that is flushed, the server killed and started again.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_vm

readme=$(sed -n '/^    truncate -s 10G/,/^$/p; /^    nbd-client/,/^$/p' "$JOURNAL_SOURCE/README.md")
manual=$(sed -n '/^=head2 A file system on it/,/^Without/{/^ /p}' "$JOURNAL_SOURCE/docs/nbdkit-journal-plugin.1.pod")
for words in "$readme" "$manual"; do
    expect_equal 'commands, from the server to the mount' 'nbdkit nbd-client mkfs.ext4 mount' \
        "$(sed 's/^ *//' <<<"$words" | cut -d' ' -f1 | grep -v -e truncate -e '^$' | paste -sd' ')"
done

guest_modules=nbd
guest_programs="nbd-client nbdkit mkfs.ext4 $plugin $nbdjournal"
plugins=$(nbdkit --dump-config | sed -n 's/^plugindir=//p')
mkdir -p "guest$plugins"
cp "$plugin" "guest$plugins/"
make_guest "
export PATH=/programs:/bin
mkdir -p /dev/shm /run /disks /etc
mount -t tmpfs shm /dev/shm
/programs/mke2fs -q -t ext4 /dev/vda
mount -t ext4 /dev/vda /disks
cd /disks
ln -s /proc/self/mounts /etc/mtab

# used SERVER-PID: what a person does with it then.
used() {
    date >/mnt/file
    sync
    cmp /mnt/file - <<END
\$(cat /mnt/file)
END
    umount /mnt
    nbd-client -d /dev/nbd0
    kill \$1
    while [ -d /proc/\$1 ]; do sleep 0.1; done
    /programs/e2fsck -fn disk.img
    nbdjournal check disk.img.journal disk.img
}
$readme
used \$(cat disk.pid)
echo STEP: README
rm disk.img disk.img.journal
truncate -s 64M disk.img
$manual
used \$(pidof nbdkit)
echo STEP: manual
"
truncate -s 3G disks
_boot -m 384 -drive file=disks,format=raw,if=none,id=a -device virtio-blk-pci,drive=a
await_guest
expect_equal 'what was done' 'README manual' "$(said STEP | tr '\n' ' ' | sed 's/ $//')"
