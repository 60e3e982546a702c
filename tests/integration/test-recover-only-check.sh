#!/bin/bash
# recover=only-check says what is in the journal and ends; recover=no refuses a dirty journal. Neither changes
# anything.
. "$(dirname "$0")/../lib.sh"

make_image 8M
start_server
nbd_script <<'END'
h.pwrite(b"a" * 4096, 0)
END
kill_server
sha256sum "$image" "$journal" >before

nbdkit -f -U "$dir/second.sock" "$plugin" file="$image" recover=only-check </dev/null >out 2>&1 || true
[ -s out ] || fail 'it says nothing'
sha256sum --quiet -c before
text=$(expect_failure nbdkit -f -U "$dir/second.sock" "$plugin" file="$image" recover=no </dev/null)
expect_match "$text" 'recover'
sha256sum --quiet -c before

start_server
nbd_script <<'END'
assert h.pread(4096, 0) == b"a" * 4096
END
stop_server
# Clean: nothing to recover, so that recover=no is content.
start_server -- file="$image" recover=no
stop_server
