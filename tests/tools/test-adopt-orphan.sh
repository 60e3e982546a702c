#!/bin/bash
# adopt: an image that is marked for a journal that is gone, and a new journal.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20
cp "$image" before.img
rm "$journal"
expect_exit 0 create "$dir/new.journal" --size 4M
expect_exit 2 check "$dir/new.journal" "$image"
expect_exit 1 adopt "$dir/new.journal" "$image"
expect_match "$out" 'marked for the journal'
expect_match "$out" 'lost'
expect_marked "$image"
expect_exit 0 adopt "$dir/new.journal" "$image" --yes
expect_unmarked "$image"
expect_exit 0 check "$dir/new.journal" "$image"
expect_same "$image" before.img
journal=$dir/new.journal
cp "$image" "$expected"
fill records=10
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
