#!/bin/bash
# The largest image there can be: 2^63-1 bytes, sparse.
. "$(dirname "$0")/../lib.sh"

requires_root
requires mkfs.xfs
# Only xfs has files of that size.
truncate -s 512M xfs
mkdir mnt
mkfs.xfs -q xfs
mount -o loop xfs mnt 2>/dev/null || skip 'a file can not be mounted here'
on_exit "umount $dir/mnt"
image=$dir/mnt/disk.img
make_image 9223372036854775807

start_server -- file="$image" journal-size=16M
expect_equal size 9223372036854775807 "$(nbdinfo --size "$uri")"
nbd_script <<'END'
size = h.get_size()
h.pwrite(b"first", 0)
h.pwrite(b"middle", 1 << 62)
h.pwrite(b"last!", size - 5, nbd.CMD_FLAG_FUA)
h.zero(4294967295, 1 << 61)
h.trim(4294967295, size - 4294967295 - 5)
h.trim(1, 2)
END
kill_server
cat >check <<'END'
size = h.get_size()
assert h.pread(6, 0) == b"fi\0st\0", h.pread(6, 0)
assert h.pread(6, 1 << 62) == b"middle"
assert h.pread(10, size - 10) == bytes(5) + b"last!"
END
start_server -- file="$image"
nbd_script <check
stop_server
start_server -- file="$image"
nbd_script <check
stop_server
expect_equal 'size of the image' 9223372036854775807 "$(stat -c %s "$image")"
