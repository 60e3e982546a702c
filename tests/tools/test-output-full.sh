#!/bin/bash
# What could not be printed is no success.
. "$(dirname "$0")/tools.sh"

fill records=50
for command in info 'info --json' check dump 'dump --json' 'dump --datalog'; do
    status=0
    set -- $command
    name=$1
    shift
    "$nbdjournal" "$name" "$journal" "$@" >/dev/full 2>said || status=$?
    expect_equal "$command >/dev/full" 3 "$status"
    [ -s said ] || fail "$command >/dev/full says nothing"
done
