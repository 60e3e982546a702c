#!/bin/bash
# The units of systemd: systemd finds nothing wrong with them, the service is locked up well, its stop time
# fits the stop, and its command line serves what a configuration file names on a socket of systemd's.
. "$(dirname "$0")/../lib.sh"
requires systemd-analyze systemd-socket-activate nbdsh

mkdir units
cp "$JOURNAL_BUILD/systemd/nbdjournal@.service" units/nbdjournal@web.service
cp "$JOURNAL_SOURCE/systemd/nbdjournal@.socket" units/nbdjournal@web.socket
unit=units/nbdjournal@web.service
# It warns, and ends with 0.
systemd-analyze verify --man=no ./$unit ./units/nbdjournal@web.socket >verify 2>&1 || { cat verify; fail 'not verified'; }
! grep nbdjournal verify || fail 'systemd warns'
# In tenths: below 3.0.
systemd-analyze security --offline=true --threshold=29 --no-pager ./$unit >security || { cat security; fail 'too exposed'; }

value() {
    sed -n "s/^$1=//p" $unit
}
stop_seconds=$(sed -n 's/^#define STOP_SECONDS \([0-9.]*\).*/\1/p' "$JOURNAL_SOURCE"/plugin/*.[ch])
[ "$(value TimeoutStopSec)" -ge $((2 * ${stop_seconds%.*})) ] || fail "TimeoutStopSec is too short for $stop_seconds s"

make_image 8M
cat >conf <<END
# As in /etc/nbdjournal/web.conf.
PARAMETERS="file=$image journal-size=1M"
OPTIONS="-t 2"
END
command=$(value ExecStart)
expect_match "$command" '^/.*nbdkit .* journal \$PARAMETERS$'
. ./conf
export PARAMETERS OPTIONS
serve() {
    # $command is a list of words, and what it gets from its environment as well.
    eval "exec systemd-socket-activate --listen='$socket' ${command/ journal / '$plugin' }" </dev/null >>"$log" 2>&1 &
    server=$!
    servers+=("$server")
    eventually 60 test -S "$socket"
}
serve
# The activator becomes the server.
nbd_script <<'END'
assert h.get_size() == 8 << 20
h.pwrite(b"a" * 4096, 4096)
END
kill_server
rm "$socket"
serve
nbd_script <<'END'
assert h.pread(4096, 4096) == b"a" * 4096
h.pwrite(b"b" * 4096, 0)
h.flush()
END
stop_server
grep -q 'stopped, drained' "$log" || fail 'no clean stop'
expect_equal 'the image' b "$(head -c 1 "$image")"
