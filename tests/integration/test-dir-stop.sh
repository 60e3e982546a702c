#!/bin/bash
# dir=: a clean stop brings all disks home, with one commit, and leaves no mark.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

for i in 1 2 3 4; do
    make_image 1M "$disks/d$i"
done
start_server -v -D journal.commit=1 -- dir="$disks" journal-size=4M commit-interval=3600
for i in 1 2 3 4; do
    disk_write "d$i" "$i" 0 10000
done
if setfattr -n user.nbdkit.test -v x "$disks/d1" 2>/dev/null; then
    is_marked d4 || fail 'd4 is not marked'
fi
commits=$(grep -c 'debug: commit [0-9]' "$log" || true)
stop_server
expect_equal 'commits of the stop' $((commits + 1)) "$(grep -c 'debug: commit [0-9]' "$log")"
grep -q 'stopped, drained: the images in .*/disks are complete' "$log" || fail 'not drained'
for i in 1 2 3 4; do
    expect_bytes "d$i" "$i" 0 10000
    ! is_marked "d$i" || fail "d$i is marked"
done
"$nbdjournal" check "$journal"
