#!/bin/bash
# dump --datalog: not to a terminal.
. "$(dirname "$0")/tools.sh"
requires script

fill records=2
status=0
script -qec "'$nbdjournal' dump --datalog '$journal'" /dev/null >out 2>&1 || status=$?
expect_equal 'exit' 3 "$status"
grep -q 'write it to a file' out
