#!/bin/bash
# create: never over something that exists, and of no impossible size; nothing is left behind.
. "$(dirname "$0")/tools.sh"

echo precious >"$journal"
before=$(digest "$journal")
expect_exit 3 create "$journal" --size 4M
expect_match "$out" "$journal"
expect_exit 3 create "$journal" --size 4M --force
expect_equal 'the existing file' "$before" "$(digest "$journal")"
ln -s nowhere "$dir/link"
expect_exit 3 create "$dir/link" --size 4M
rm "$dir/link" "$journal"

for size in 0 1 1M-1 1048575 -1 x 1.5M '' 65T 9E 99999999999999999999; do
    expect_exit 3 create "$journal" --size "$size"
    expect_match "$out" 'size'
done
expect_exit 3 create "$journal"
expect_match "$out" '--size'
expect_exit 3 create "$dir/no/such/dir/journal" --size 4M
expect_match "$out" 'no/such/dir'
expect_exit 3 create
expect_exit 3 create "$journal" "$journal" --size 4M
expect_equal 'left behind' '' "$(find "$dir" -type f ! -name '*.log')"
