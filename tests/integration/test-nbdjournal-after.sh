#!/bin/bash
# After create, resize, replay --to, adopt and forget a server takes the pair and serves what it should.
. "$(dirname "$0")/../tools/tools.sh"
requires_marks

serves_expected() {
    start_server
    nbdcopy "$uri" served.img
    expect_same served.img "$expected"
    churn 30 "$1"
    kill_server
    start_server
    nbdcopy "$uri" served.img
    expect_same served.img "$expected"
    stop_server
    expect_same "$image" "$expected"
}
make_random_image 4M
cp "$image" "$expected"
expect_exit 0 create "$journal" --size 4M
serves_expected 1

start_server
churn 30 2
kill_server
expect_exit 0 resize "$journal" --size 2M
serves_expected 3
expect_exit 0 resize "$journal" --size 12M
serves_expected 4

# The first flushed part, and the rest given up.
start_server
churn 20 5
cp "$expected" first.img
lsn=$("$nbdjournal" dump --json --image 1 "$journal" | tail -n 1 | json 'o["lsn"]')
churn 20 6
kill_server
expect_exit 0 replay "$journal" --to "$lsn" --yes
cp first.img "$expected"
serves_expected 7

# A copy of the pair takes the original's place.
start_server
churn 20 8
kill_server
staging=$(staging)
mkdir other
cp "$image" "$journal" other
rm "$image" "$journal"
cp other/* "$dir"
expect_exit 0 adopt "$journal" "$image" --yes
serves_expected 9
[ ! -e "$staging" ] || fail 'staging is left'

# Gone: another image takes its place in the journal.
start_server
churn 20 10
kill_server
rm "$image"
expect_exit 0 forget "$journal" "$image" --yes
[ ! -e "$staging" ] || fail 'staging is left'
make_random_image 4M
cp "$image" "$expected"
serves_expected 11
