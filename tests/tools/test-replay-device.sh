#!/bin/bash
# replay: journal and image on block devices.
. "$(dirname "$0")/tools.sh"
requires_root
requires losetup

make_random_image 4M
truncate -s 4M "$dir/jdisk"
cp "$image" "$expected"
image_device=$(losetup -f --show "$image") || skip 'no loop devices'
on_exit "losetup -d $image_device"
journal_device=$(losetup -f --show "$dir/jdisk") || skip 'no loop devices'
on_exit "losetup -d $journal_device"
expect_exit 0 create "$journal_device"
"$make_journal" "$journal_device" "$image_device" "$expected" records=60 >lsns
expect_exit 1 check "$journal_device" "$image_device"
expect_exit 0 replay "$journal_device"
cmp "$image_device" "$expected" || fail 'the device differs'
expect_exit 0 check "$journal_device" "$image_device"
