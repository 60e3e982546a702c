#!/bin/bash
# info, check, dump: a process that holds the journal is no obstacle, and is mentioned; the
# commands that write are refused and name it.
. "$(dirname "$0")/tools.sh"
requires flock

fill records=5
exec 9<"$journal"
flock 9
expect_exit 0 info "$journal"
expect_match "$out" 'in use'
expect_equal 'in use' True "$("$nbdjournal" info --json "$journal" | json 'o["in_use"]')"
expect_exit 1 check "$journal"
expect_match "$out" 'in use'
expect_exit 0 dump "$journal"
expect_equal 'records' 5 "$(grep -cE ' (write|trim|zero) ' <<<"$out")"
before=$(digest "$journal" "$image")
for command in replay 'resize --size 8M' "adopt $image --yes" "forget $image --yes"; do
    set -- $command
    name=$1
    shift
    expect_exit 3 "$name" "$journal" "$@"
    expect_match "$out" 'in use by .*pid'
done
expect_equal 'journal and image' "$before" "$(digest "$journal" "$image")"
