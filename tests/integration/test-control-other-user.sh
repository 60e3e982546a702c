#!/bin/bash
# nbdkit -u: the control socket belongs to who started the server, and answers him; others are kept out.
. "$(dirname "$0")/../lib.sh"

requires_root
requires setpriv
make_image 8M
chmod 777 "$dir"
mkdir private
control=$dir/private/control

for round in 1 2; do
    start_server -u nobody -g nogroup -- file="$image" journal-size=1M control="$control"
    expect_equal 'user of the server' nobody "$(stat -c %U "/proc/$server")"
    expect_equal 'the socket' 'root 600' "$(stat -c '%U %a' "$control")"
    expect_match "$("$nbdjournal" stats "$control")" "process $(cat pid)"
    expect_match "$(setpriv --reuid=nobody --clear-groups "$nbdjournal" stats "$control" 2>&1 || true)" 'ermission denied'
    # It can't be removed by nobody: the next start takes it for what it is.
    stop_server
done
chmod 777 private
start_server -u nobody -g nogroup -- file="$image" control="$control"
stop_server
[ ! -e "$control" ] || fail 'the socket is still there'
