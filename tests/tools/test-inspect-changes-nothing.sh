#!/bin/bash
# info, check and dump leave journal and image as they are, and need no permission to write.
. "$(dirname "$0")/tools.sh"

fill records=30
inspect() {
    expect_exit 0 info "$journal"
    expect_exit 0 info "$journal" --json
    expect_exit 1 check "$journal" "$image"
    expect_exit 0 dump "$journal"
    expect_exit 0 dump "$journal" --json
    "$nbdjournal" dump "$journal" --datalog >/dev/null 2>&1 || fail 'dump --datalog'
}
before=$(digest "$journal" "$image")
inspect
chmod 444 "$journal" "$image"
before_read_only=$(digest "$journal" "$image")
inspect
if [ "$(id -u)" = 0 ]; then
    # Root may write whatever the mode says; nobody may not.
    chmod 755 "$dir"
    status=0
    setpriv --reuid=65534 --regid=65534 --clear-groups "$nbdjournal" check "$journal" "$image" \
        >out 2>&1 || status=$?
    expect_equal "exit of nobody's check" 1 "$status"
fi
expect_equal 'read-only files' "$before_read_only" "$(digest "$journal" "$image")"
chmod 600 "$journal"
chmod 644 "$image"
expect_equal 'contents' "$(grep -v ^/ <<<"$before" | head -n 1)" \
    "$(digest "$journal" "$image" | grep -v ^/ | head -n 1)"
