#!/bin/bash
# resize: on a block device up to its size.
. "$(dirname "$0")/tools.sh"
requires_root
requires losetup

truncate -s 8M "$dir/disk"
journal=$(losetup -f --show "$dir/disk") || skip 'no loop devices'
on_exit "losetup -d $journal"
expect_exit 0 create "$journal" --size 2M
fill records=30 max=4096
expect_exit 3 resize "$journal" --size 16M
expect_match "$out" 'the device has only'
expect_exit 1 check "$journal" "$image"
for size in 8M 1M 4M; do
    expect_exit 0 resize "$journal" --size $size
    expect_same "$image" "$expected"
    expect_exit 0 check "$journal" "$image"
    expect_equal 'size' "$(numfmt --from=iec $size)" \
        "$("$nbdjournal" info --json "$journal" | json 'o["size"]')"
    fill records=30 max=4096
done
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
