#!/bin/bash
# resize: larger, smaller, dirty or clean; the images get what waited; the old records never come
# back; the identity stays.
. "$(dirname "$0")/tools.sh"

fill records=60 size=4M
uuid=$("$nbdjournal" info --json "$journal" | json 'o["uuid"]')
lsn=$("$nbdjournal" info --json "$journal" | json 'o["last_lsn"]')
seed=2
for size in 8M 2M 1M 1052672 16M 16777217 4M; do
    bytes=$(numfmt --from=iec $size)
    expect_exit 0 resize "$journal" --size $size
    expect_same "$image" "$expected"
    expect_unmarked "$image"
    expect_exit 0 check "$journal" "$image"
    "$nbdjournal" info --json "$journal" >info.json
    expect_equal 'size' $((bytes / 4096 * 4096)) "$(json 'o["size"]' <info.json)"
    expect_equal 'size of the file' $((bytes / 4096 * 4096)) "$(stat -c %s "$journal")"
    expect_equal 'uuid' "$uuid" "$(json 'o["uuid"]' <info.json)"
    expect_equal 'lsn grows' True "$(json "o['last_lsn'] > $lsn" <info.json)"
    lsn=$(json 'o["last_lsn"]' <info.json)
    fill records=30 seed=$seed max=4096
    seed=$((seed + 1))
    expect_exit 1 check "$journal" "$image"
    expect_match "$out" '30 records'
done
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
# The size that it has.
before=$(digest "$journal")
expect_exit 0 resize "$journal" --size 4M
expect_equal 'no change' "$before" "$(digest "$journal")"
