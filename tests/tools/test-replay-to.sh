#!/bin/bash
# replay --to: the state after that record, only with --yes, and what was given up never comes back.
. "$(dirname "$0")/tools.sh"

fill records=40 commit=7
cp --preserve=all "$journal" journal.saved
cp "$image" image.saved
lsn=$(sed -n 23p lsns)
before=$(digest "$journal" "$image")
expect_exit 1 replay "$journal" --to "$lsn"
expect_match "$out" '17 records.*would be given up'
expect_match "$out" '--yes'
expect_equal 'without --yes' "$before" "$(digest "$journal" "$image")"
expect_exit 0 replay "$journal" --to "$lsn" --yes
expect_match "$out" '17 records.*are given up'
expect_exit 0 check "$journal" "$image"
expect_exit 0 replay "$journal"

# What the first 23 changes make.
cp "$image" to.img
rm -f "$expected"
cat image.saved >"$dir/first.img"
cp "$dir/first.img" "$expected"
"$make_journal" "$dir/first.journal" "$dir/first.img" "$expected" records=23 commit=7 >/dev/null
expect_same to.img "$expected"

# The end and beyond: nothing is given up, no --yes needed.  Before the beginning: refused.
rm -f "$image" "$journal" "$expected"
fill records=10
expect_exit 3 replay "$journal" --to 18446744073709551616
expect_exit 0 replay "$journal" --to "$(tail -n 1 lsns)"
expect_same "$image" "$expected"
fill records=10
expect_exit 3 replay "$journal" --to 1
expect_match "$out" 'in the image already'
