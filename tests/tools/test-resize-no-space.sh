#!/bin/bash
# resize: no room to grow: an error, and the journal is as it was.
. "$(dirname "$0")/tools.sh"
requires_root

mkdir small
mount -t tmpfs -o size=6M tmpfs small || skip 'no tmpfs'
on_exit "umount $dir/small"
journal=$dir/small/journal
fill records=20
expect_exit 3 resize "$journal" --size 32M
expect_match "$out" 'No space left'
expect_equal 'size' 4194304 "$(stat -c %s "$journal")"
expect_exit 0 check "$journal" "$image"
expect_same "$image" "$expected"
fill records=5 seed=3
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
