#!/bin/bash
# replay: what a crash left half written at the end is cut, and what was durable is there.
. "$(dirname "$0")/tools.sh"

# 20 durable changes, then 3 that are not.
fill records=20 commit=5
cp "$expected" durable.img
expect_exit 0 replay "$journal"
expect_same "$image" durable.img

rm -f "$image" "$journal" "$expected"
fill records=23 commit=20 last_commit=0 zeroes=0
"$nbdjournal" dump --json "$journal" >dump.json
start=$("$nbdjournal" info --json "$journal" | json 'o["size"] - o["ring_bytes"]')
position=$(sed -n '$p' dump.json | json 'o["position"]')
lsn=$(sed -n '$p' dump.json | json 'o["lsn"]')
expect_equal 'the last one' "$lsn" "$(tail -n 1 lsns)"
# The last byte of its payload is wrong.
length=$(sed -n '$p' dump.json | json 'o["length"]')
byte=$(od -An -tu1 -j $((start + position + 128 + length - 1)) -N 1 "$journal")
printf "\\x$(printf %02x $((byte ^ 255)))" | write_at "$journal" $((start + position + 128 + length - 1))
expect_exit 1 check "$journal"
expect_match "$out" '22 records'
expect_exit 0 replay "$journal"
expect_match "$out" '22 records'

# The same 22 changes alone.
mv "$image" torn.img
rm -f "$journal" "$expected"
fill records=22 commit=20 zeroes=0
expect_same torn.img "$expected"
