#!/bin/bash
# replay: killed before each system call that changes anything, then started again: the result is
# that of an uninterrupted one.
. "$(dirname "$0")/tools.sh"

fill records=40 commit=7
save_pair
after() {
    expect_exit 0 replay "$journal" "$image"
    expect_same "$image" "$expected"
    expect_exit 0 check "$journal" "$image"
    expect_unmarked "$image"
}
killed_everywhere restore_pair after replay "$journal"
