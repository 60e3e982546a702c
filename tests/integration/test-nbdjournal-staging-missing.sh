#!/bin/bash
# The records in shared memory of a killed server are gone: info says so, replay asks, and with --yes
# brings home what is left.
. "$(dirname "$0")/../tools/tools.sh"
requires_marks

make_random_image 16M
cp "$image" "$expected"
start_server
churn 20
nbd_script <<<'h.flush()'
cp "$expected" flushed.img
nbd_script <<<'h.pwrite(b"x" * 4096, 4096)'
kill_server
staging=$(staging)
[ -e "$staging" ] || skip 'no staging on this machine'
rm "$staging"
expect_exit 0 info "$journal"
expect_match "$out" 'missing'
expect_equal 'staging' missing "$("$nbdjournal" info --json "$journal" | json 'o["staging"]')"
before=$(digest "$journal" "$image")
expect_exit 1 replay "$journal"
expect_match "$out" '--yes'
expect_exit 3 resize "$journal" --size 8M
expect_equal 'journal and image' "$before" "$(digest "$journal" "$image")"
expect_exit 0 replay "$journal" --yes
expect_same "$image" flushed.img
expect_exit 0 check "$journal" "$image"
