#!/bin/bash
# create: a block device is used whole, and never overwritten unasked.
. "$(dirname "$0")/tools.sh"
requires_root
requires losetup

truncate -s 8M "$dir/disk"
device=$(losetup -f --show "$dir/disk") || skip 'no loop devices'
on_exit "losetup -d $device"
expect_exit 0 create "$device"
expect_match "$out" '8 MiB'
expect_exit 0 check "$device"
before=$(sha256sum "$dir/disk")
expect_exit 3 create "$device"
expect_exit 3 create "$device" --size 4M
blockdev --flushbufs "$device"
expect_equal 'the journal that was there' "$before" "$(sha256sum "$dir/disk")"
expect_exit 0 create "$device" --size 4M --force
expect_match "$out" '4 MiB'
expect_exit 3 create "$device" --size 16M --force
expect_exit 0 check "$device"
