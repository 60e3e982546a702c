#!/bin/bash
# Images that are none: refused and named, nothing changes.
. "$(dirname "$0")/tools.sh"

fill records=10
before=$(digest "$journal" "$image")
mkdir directory
: >empty
mkfifo pipe
for what in directory empty pipe missing; do
    expect_exit 3 check "$journal" $what
    expect_match "$out" "$what"
    expect_exit 3 replay "$journal" $what
    expect_match "$out" "$what"
    expect_exit 3 adopt "$journal" $what --yes
    expect_match "$out" "$what"
done
expect_exit 3 adopt "$journal" "$journal" --yes
expect_exit 3 replay "$journal" "$journal"
expect_equal 'journal and image' "$before" "$(digest "$journal" "$image")"
