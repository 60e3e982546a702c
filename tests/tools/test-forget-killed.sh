#!/bin/bash
# forget: killed before each system call that changes anything, it finishes the work when it is
# repeated.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20
save_pair
after() {
    "$nbdjournal" forget "$journal" "$image" --yes >/dev/null 2>&1 || true
    expect_exit 0 check "$journal" "$image"
    expect_unmarked "$image"
}
killed_everywhere restore_pair after forget "$journal" "$image" --yes
