#!/bin/bash
# replay: the image gets every change; then the journal is clean and the image free; again: nothing
# happens.
. "$(dirname "$0")/tools.sh"
requires_marks

for align in 1 512 4096; do
    rm -f "$image" "$journal" "$expected"
    fill records=100 align=$align seed=$align
    expect_marked "$image"
    ! cmp -s "$image" "$expected" || fail 'nothing to replay'
    expect_exit 0 replay "$journal"
    expect_match "$out" '100 records'
    expect_same "$image" "$expected"
    expect_unmarked "$image"
    expect_exit 0 check "$journal" "$image"
    before=$(digest "$journal" "$image")
    expect_exit 0 replay "$journal" "$image"
    expect_equal 'after a second replay' "$before" "$(digest "$journal" "$image")"
done
# A second session over what the first one left in the ring.
fill records=50 seed=9
expect_exit 0 replay "$journal" "$image"
expect_same "$image" "$expected"
