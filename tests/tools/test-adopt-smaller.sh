#!/bin/bash
# adopt: an image that became smaller: the records beyond its end are named, and dropped.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=30 zeroes=0 align=512
truncate -s 700K "$image"
expect_exit 3 replay "$journal"
expect_exit 1 adopt "$journal" "$image"
expect_match "$out" '700 KiB.*was 1 MiB'
expect_match "$out" 'lsn [0-9]+: write of [0-9]+ bytes at [0-9]+'
beyond=$("$nbdjournal" dump --json --image 1 "$journal" |
    python3 -c 'import json, sys; print(sum(o["offset"] + o["length"] > 700 * 1024 for o in map(json.loads, sys.stdin)))')
[ "$beyond" -gt 0 ] || fail 'nothing lies beyond'
named=$(grep -c 'lsn .* bytes at' <<<"$out" || true)
more=$(sed -n 's/.*and \([0-9]*\) more/\1/p' <<<"$out")
expect_equal 'named' "$beyond" $((named + ${more:-0}))
expect_exit 0 adopt "$journal" "$image" --yes
expect_exit 0 replay "$journal"
truncate -s 700K "$expected"
expect_same "$image" "$expected"
