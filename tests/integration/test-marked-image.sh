#!/bin/bash
# An image with data in a journal is not served without that journal, and nothing changes; with it, all is
# there. After a clean stop the image is free.
. "$(dirname "$0")/../lib.sh"

make_image 8M
start_server
nbd_script <<'END'
h.pwrite(b"a" * 4096, 0)
END
kill_server
getfattr -d "$image" 2>/dev/null | grep -q journal || skip 'no extended attributes here'
mv "$journal" moved
sha256sum "$image" moved >before

text=$(expect_failure nbdkit -f -U "$socket" "$plugin" file="$image" </dev/null)
expect_match "$text" 'journal'
[ ! -e "$journal" ] || fail 'it created a new journal'
make_image 8M second.img
start_server -- file="$dir/second.img"
stop_server
sha256sum second.img second.img.journal >>before
text=$(expect_failure nbdkit -f -U "$socket" "$plugin" file="$image" journal=second.img.journal </dev/null)
expect_match "$text" 'journal'
sha256sum --quiet -c before

start_server -- file="$image" journal=moved
nbd_script <<'END'
assert h.pread(4096, 0) == b"a" * 4096
END
stop_server
expect_equal marks '' "$(getfattr -d "$image" 2>/dev/null)"
start_server
nbd_script <<'END'
assert h.pread(4096, 0) == b"a" * 4096
END
stop_server
