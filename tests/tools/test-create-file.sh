#!/bin/bash
# create: a journal of the wanted size, for its owner alone, clean.
. "$(dirname "$0")/tools.sh"

expect_exit 0 create "$journal" --size 3M
expect_match "$out" '3 MiB.*requests up to .* KiB are atomic'
expect_equal 'size' 3145728 "$(stat -c %s "$journal")"
expect_equal 'mode' 600 "$(stat -c %a "$journal")"
expect_exit 0 check "$journal"
expect_equal 'allocated' 1 "$(($(stat -c %b "$journal") * 512 >= 3145728))"
