#!/bin/bash
# P4: a journal that is truncated under a running server: nothing is called durable any more.
. "$(dirname "$0")/../lib.sh"

make_image 8M
start_server
nbd_script <<'END'
h.pwrite(b"a" * 4096, 0)
h.flush()
END
truncate -s 4096 "$journal"
nbd_script <<'END'
for attempt in range(2):
    try:
        h.pwrite(b"b" * 4096, 4096)
        h.flush()
        raise SystemExit("a flush into nothing was answered with success")
    except nbd.Error:
        pass
assert h.pread(4096, 0) == b"a" * 4096
END
grep -q 'was truncated to 4096 bytes' "$log" || fail 'the log does not say what happened'
[ "$(stat -c %s "$journal")" = 4096 ] || fail 'the journal grew again'
