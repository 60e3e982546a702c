#!/bin/bash
# One superblock is torn: the other one serves, and check says so.  Any byte.
. "$(dirname "$0")/tools.sh"

fill records=10
cp --preserve=all "$journal" good
generation=$(od -An -tu8 -j 72 -N 8 good)
other=$(od -An -tu8 -j $((65536 + 72)) -N 8 good)
old=$((generation < other ? 0 : 65536))
for offset in 0 20 60 100 200 2000 4090 4200; do
    cat good >"$journal"
    byte=$(od -An -tu1 -j $((old + offset)) -N 1 good)
    printf "\\x$(printf %02x $((byte ^ 255)))" | write_at "$journal" $((old + offset))
    expect_exit 1 check "$journal"
    expect_match "$out" '10 records'
done
expect_match "$out" '[12] of 2 superblocks valid'
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
