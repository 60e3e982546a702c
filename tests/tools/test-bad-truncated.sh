#!/bin/bash
# A journal that was cut anywhere: refused, named, unchanged.
. "$(dirname "$0")/tools.sh"

fill records=10
size=$(stat -c %s "$journal")
cp --preserve=all "$journal" good
for cut in 1 511 512 4095 4096 8191 8192 65535 65536 69632 131071 131072 262144 $((size / 2)) \
    $((size - 512)) $((size - 1)); do
    cat good >"$journal"
    truncate -s "$cut" "$journal"
    before=$(digest "$journal" "$image")
    for command in info check dump replay 'resize --size 8M' "adopt $image --yes" "forget $image --yes"; do
        set -- $command
        status=0
        out=$("$nbdjournal" "$1" "$journal" "${@:2}" 2>&1) || status=$?
        [ $status = 2 ] || [ $status = 3 ] || fail "cut at $cut, $command: exit $status: $out"
        expect_match "$out" "$journal"
    done
    expect_equal "cut at $cut" "$before" "$(digest "$journal" "$image")"
done
cat good >"$journal"
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
