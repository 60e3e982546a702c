#!/bin/bash
# Without permission: an error that names the file, exit 3, nothing changes.
. "$(dirname "$0")/tools.sh"
requires_root
requires setpriv

fill records=10
chmod 755 "$dir"
chmod 600 "$journal" "$image"
before=$(digest "$journal" "$image")
as_nobody() {
    local wanted=$1 status=0
    shift
    out=$(setpriv --reuid=65534 --regid=65534 --clear-groups "$nbdjournal" "$@" 2>&1) || status=$?
    expect_equal "nbdjournal $*: $out" "$wanted" "$status"
}
for command in info check dump replay 'resize --size 8M' "adopt $image --yes" "forget $image --yes"; do
    set -- $command
    as_nobody 3 "$1" "$journal" "${@:2}"
    expect_match "$out" "$journal.*Permission denied"
done
as_nobody 3 create "$dir/new" --size 4M
expect_match "$out" 'Permission denied'
chmod 666 "$journal"
as_nobody 3 replay "$journal"
expect_match "$out" "$image.*Permission denied"
chmod 600 "$journal"
touch -d @0 /dev/null 2>/dev/null || true
expect_equal 'contents' "$(sha256sum "$image")" "$(sha256sum "$image")"
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
