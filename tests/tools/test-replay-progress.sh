#!/bin/bash
# replay: a bar on a terminal, nothing of it elsewhere.
. "$(dirname "$0")/tools.sh"
requires script

fill records=200
cp --preserve=all "$journal" saved
"$nbdjournal" replay "$journal" >out 2>err
expect_equal 'standard error' '' "$(cat err)"
expect_equal 'lines' 1 "$(wc -l <out)"
rm -f "$image" "$journal" "$expected"
fill records=200
script -qec "'$nbdjournal' replay '$journal'" /dev/null >terminal
grep -q 'replaying \[#.*100 %' terminal || fail "no bar: $(cat -v terminal)"
