#!/bin/bash
# check: 0 clean, 1 needs replay, 2 damaged, 3 usage or I/O.
. "$(dirname "$0")/tools.sh"

expect_exit 0 create "$journal" --size 4M
expect_exit 0 check "$journal"
fill records=30 commit=5
expect_exit 1 check "$journal"
expect_match "$out" '30 records.*every checksum is right .*B/s\)'
expect_exit 0 replay "$journal"
expect_exit 0 check "$journal"

fill records=30 commit=5
position=$("$nbdjournal" dump --json "$journal" | sed -n 3p | json 'o["position"]')
ring=$("$nbdjournal" info --json "$journal" | json 'o["ring_bytes"]')
start=$("$nbdjournal" info --json "$journal" | json 'o["size"] - o["ring_bytes"]')
printf 'XXXX' | write_at "$journal" $((start + position % ring + 20))
before=$(digest "$journal" "$image")
expect_exit 2 check "$journal"
expect_match "$out" 'damaged'
expect_equal 'state' damaged "$("$nbdjournal" check --json "$journal" 2>/dev/null | json 'o["state"]' || true)"
expect_exit 2 info "$journal"
expect_exit 2 dump "$journal"
expect_exit 2 replay "$journal"
expect_exit 2 resize "$journal" --size 8M
expect_exit 2 adopt "$journal" "$image" --yes
expect_equal 'journal and image' "$before" "$(digest "$journal" "$image")"

expect_exit 3 check "$dir/missing"
expect_exit 3 check
