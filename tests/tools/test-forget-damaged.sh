#!/bin/bash
# forget: the last way out of a damaged journal.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=30 commit=5
position=$("$nbdjournal" dump --json "$journal" | sed -n 6p | json 'o["position"]')
start=$("$nbdjournal" info --json "$journal" | json 'o["size"] - o["ring_bytes"]')
printf 'XXXX' | write_at "$journal" $((start + position + 20))
expect_exit 2 check "$journal"
expect_exit 1 forget "$journal" "$image"
expect_match "$out" 'damage'
expect_exit 0 forget "$journal" "$image" --yes
expect_exit 0 check "$journal" "$image"
cp "$image" "$expected"
fill records=10 seed=2
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
