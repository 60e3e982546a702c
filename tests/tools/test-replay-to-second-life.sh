#!/bin/bash
# replay --to, then a new session over the ring in which the records that were given up still stand:
# they never come back, also not after a crash before the first record of that session.
. "$(dirname "$0")/tools.sh"

for cut in 1 7 8 14 23 39; do
    rm -f "$image" "$journal" "$expected"
    fill records=40 commit=7
    expect_exit 0 replay "$journal" --to "$(sed -n ${cut}p lsns)" --yes
    cp "$image" "$expected"
    # A server that was killed when only its superblock was written.
    fill records=0 epoch=0
    expect_exit 1 check "$journal" "$image"
    expect_match "$out" '0 records'
    expect_exit 0 replay "$journal"
    expect_same "$image" "$expected"
    # And one that got further.
    fill records=3 seed=5
    expect_exit 1 check "$journal" "$image"
    expect_match "$out" '3 records'
    expect_exit 0 replay "$journal"
    expect_same "$image" "$expected"
done
