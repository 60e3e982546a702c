#!/bin/bash
# A server with records in shared memory is killed, then replay is, before each of its system calls
# that changes anything; a server that starts after that serves every answered change.
. "$(dirname "$0")/../tools/tools.sh"

make_random_image 2M
cp "$image" "$expected"
start_server -- "file=$image" journal-size=4M
churn 12
kill_server
save_pair
staging=$(staging)
[ ! -e "$staging" ] || cp "$staging" staging.saved
before() {
    restore_pair
    [ ! -e staging.saved ] || cp staging.saved "$staging"
}
after() {
    expect_exit 0 replay "$journal"
    expect_same "$image" "$expected"
}
killed_everywhere before after replay "$journal"
before
ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -o trace -e trace=fdatasync \
    -e inject=fdatasync:signal=KILL:when=2 "$nbdjournal" replay "$journal" || true
start_server
nbdcopy "$uri" served.img
expect_same served.img "$expected"
stop_server
expect_same "$image" "$expected"
