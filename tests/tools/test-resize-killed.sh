#!/bin/bash
# resize: killed before each system call that changes anything: the journal is of the old or the new
# size, nothing is lost, and the same command finishes the work.
. "$(dirname "$0")/tools.sh"

after() {
    "$nbdjournal" info --json "$journal" >info.json || fail "$round: $(cat trace)"
    now=$(json 'o["size"]' <info.json)
    [ "$now" = 4194304 ] || [ "$now" = "$bytes" ] || fail "$round: size $now"
    if [ "${round##* }" = 2 ]; then
        expect_exit 0 replay "$journal" "$image"
        expect_same "$image" "$expected"
    fi
    expect_exit 0 resize "$journal" --size $size
    expect_same "$image" "$expected"
    expect_exit 0 check "$journal" "$image"
    expect_unmarked "$image"
    expect_equal 'size of the file' "$bytes" "$(stat -c %s "$journal")"
}
fill records=5 commit=2 max=4096
save_pair
for size in 6M 2M; do
    bytes=$(numfmt --from=iec $size)
    killed_everywhere restore_pair after resize "$journal" --size $size
done
