#!/bin/bash
# info, check and dump beside a server that writes as fast as it can through a small journal: they
# never call it damaged, never fail, and the server's data is right afterwards.
. "$(dirname "$0")/../tools/tools.sh"

make_random_image 16M
cp "$image" "$expected"
start_server -- "file=$image" journal-size=1M
churn 3000 &
writer=$!
writes() {
    [ "$("$nbdjournal" info --json "$journal" | json 'o["records"] > 0')" = True ]
}
eventually 60 writes
rounds=0
while kill -0 $writer 2>/dev/null || [ $rounds -lt 10 ]; do
    expect_exit 1 check "$journal" "$image"
    expect_exit 0 info "$journal"
    expect_match "$out" 'in use'
    expect_exit 0 dump "$journal"
    rounds=$((rounds + 1))
done
wait $writer
echo "$rounds rounds"
stop_server
expect_same "$image" "$expected"
expect_exit 0 check "$journal" "$image"
