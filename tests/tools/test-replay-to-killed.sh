#!/bin/bash
# replay --to: killed before each system call that changes anything: the same command finishes it, and
# so does a replay of everything, if nothing was given up yet.
. "$(dirname "$0")/tools.sh"

fill records=40 commit=7
save_pair
lsn=$(sed -n 23p lsns)
expect_exit 0 replay "$journal" --to "$lsn" --yes
cp "$image" to.img
restore_pair
after() {
    if [ "$("$nbdjournal" info --json "$journal" | json 'o["state"]')" = clean ]; then
        expect_exit 0 replay "$journal"
        expect_same "$image" to.img
    elif [ "${round##* }" = 2 ]; then
        expect_exit 0 replay "$journal"
        expect_same "$image" "$expected"
    else
        expect_exit 0 replay "$journal" --to "$lsn" --yes
        expect_same "$image" to.img
    fi
    expect_unmarked "$image"
}
killed_everywhere restore_pair after replay "$journal" --to "$lsn" --yes
