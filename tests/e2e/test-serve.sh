#!/bin/bash
# scripts/serve, the first command of the README: it serves, and the lines that it tells a person to
# type do what it says they do.
. "$(dirname "$0")/../lib.sh"
requires_root
requires nbdfuse losetup mkfs.ext4
[ -c /dev/fuse ] || skip 'no /dev/fuse'
losetup -f >/dev/null 2>&1 || skip 'no loop device'

serve() {
    rm -f "$image.pid"
    "$JOURNAL_SOURCE/scripts/serve" "$image" >"$1" 2>&1 &
    serve=$!
    on_exit "kill -TERM $serve 2>/dev/null"
    eventually 120 eval "grep -q 'umount.*losetup' $1 || ! kill -0 $serve"
    on_exit '{ kill -9 $(cat "$image.pid"); } 2>/dev/null'
    sed -n '/In another terminal/,/^Start/s/^    //p' "$1" >"$1.crash"
    sed -n '/^Start the server/,$s/^    //p' "$1" >"$1.again"
    [ -s "$1.crash" ] && [ -s "$1.again" ] || { cat "$1"; fail 'it tells nothing'; }
}

clean_mounts() {
    umount -l "$image.try/mnt"
    losetup -j "$image.try/fuse/disk" | cut -d: -f1 | xargs -r losetup -d
    umount -l "$image.try/fuse"
} 2>/dev/null
on_exit clean_mounts

serve first
grep -q 'created' first || fail 'the image was not created'
( . ./first.crash )
# It notices, and says what to do.
wait "$serve" && fail 'it did not notice' || true
grep -q 'was killed' first || { cat first; fail 'it does not say so'; }

serve second
sed -n '/URI=/p' first.crash >uri
( . ./uri; . ./second.again ) >said
grep -q "$(date +%Y)" said || fail 'the flushed file is not there'
kill -TERM "$serve"
wait "$serve"
[ ! -e "$image.sock" ] || fail 'the socket was left behind'
