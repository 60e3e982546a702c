#!/bin/bash
# An image that may not be written is served read-only; so is one beside which no journal can be made, with -r.
. "$(dirname "$0")/../lib.sh"

requires_root
requires setpriv
mkdir -m 777 public
cd public
image=$PWD/disk.img
make_random_image 1M "$image"
chmod 444 "$image"
chmod 755 . "$dir"
as_nobody() {
    setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
}
# The other user may not be able to look into our build.
cp "$plugin" "$dir/plugin.so"
mkdir -m 777 "$dir/run"
as_nobody nbdkit -r -P "$dir/run/pid" -U "$dir/run/sock" "$dir/plugin.so" file="$image" </dev/null
eventually 60 test -s "$dir/run/pid" || fail 'no process id'
on_exit "kill -9 $(cat "$dir/run/pid")"
uri="nbd+unix:///?socket=$dir/run/sock"
nbdinfo "$uri" | grep -q 'is_read_only: true' || fail 'not read-only'
nbdcopy "$uri" "$dir/copy"
cmp "$dir/copy" "$image"
expect_equal files disk.img "$(ls -A)"
