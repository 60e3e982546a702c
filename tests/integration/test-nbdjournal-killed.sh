#!/bin/bash
# A server is killed: replay brings home every answered change, flushed or not, also those that were
# only in shared memory; then the image serves without its journal's help.
. "$(dirname "$0")/../tools/tools.sh"

make_random_image 16M
cp "$image" "$expected"
for seed in 1 2 3; do
    start_server
    churn 150 $seed
    kill_server
    expect_exit 1 check "$journal" "$image"
    before=$(digest "$journal" "$image")
    "$nbdjournal" dump --json "$journal" >dump.json
    expect_exit 0 info "$journal"
    expect_equal 'journal and image' "$before" "$(digest "$journal" "$image")"
    expect_exit 0 replay "$journal"
    expect_same "$image" "$expected"
    expect_unmarked "$image"
    expect_exit 0 check "$journal" "$image"
    [ ! -e "$(staging)" ] || fail 'staging is left'
done
