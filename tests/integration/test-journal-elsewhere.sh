#!/bin/bash
# journal= names the journal, journal-size= its size; a journal of another size is used as it is.
. "$(dirname "$0")/../lib.sh"

make_image 8M
mkdir other
start_server -- file="$image" journal=other/log journal-size=3M
nbd_script <<'END'
h.pwrite(b"a" * 4096, 0)
END
kill_server
[ ! -e "$journal" ] || fail 'a journal beside the image'
size=$(stat -c %s other/log)
[ "$size" -ge $((3 << 20)) ] && [ "$size" -lt $((4 << 20)) ] || fail "the journal has $size bytes"
expect_equal 'rights of the journal' 600 "$(stat -c %a other/log)"
expect_equal 'blocks of the journal' "$size" "$(($(stat -c '%b * %B' other/log)))"

start_server -- file="$image" journal=other/log journal-size=9M
nbd_script <<'END'
assert h.pread(4096, 0) == b"a" * 4096
END
grep -q 'other/log' "$log" || fail 'not a word about the other size'
stop_server
expect_equal 'size of the journal' "$size" "$(stat -c %s other/log)"
