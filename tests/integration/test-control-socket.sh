#!/bin/bash
# control=SOCKET: for its owner only, the socket of a dead server is replaced, that of a live one and any
# other file are refused and left alone, and a stop removes it.
. "$(dirname "$0")/../lib.sh"

make_image 8M
control=$dir/control

serve() {
    start_server "$@" -- file="$image" journal-size=1M control="$control"
}

# refused REGEX [CONTROL]: nothing is created, nothing listens.
refused() {
    local text before
    before=$(ls -lA --time-style=full-iso)
    text=$(expect_failure nbdkit -f -U "$dir/other" "$plugin" file="$other" journal-size=1M \
        control="${2-$control}" </dev/null)
    expect_match "$text" "$1"
    expect_equal 'files afterwards' "$before" "$(ls -lA --time-style=full-iso)"
}
other=$dir/other.img
make_image 8M "$other"

umask 0
serve
umask 022
expect_equal mode 'socket 600' "$(stat -c '%F %a' "$control")"
expect_equal uid "$(id -u)" "$(stat -c %u "$control")"
"$nbdjournal" stats "$control" >stats
expect_match "$(cat stats)" "process $(cat pid)"

# A live server is not robbed, also if it does not answer.
refused 'a server is alive'
kill -STOP "$server"
refused 'a server is alive'
kill -CONT "$server"
"$nbdjournal" stats "$control" >/dev/null

# A clean stop removes it; a killed server leaves it, and the next one takes the path.
stop_server
[ ! -e "$control" ] || fail 'the socket is still there'
serve
kill_server
[ -S "$control" ] || fail 'no socket is left'
expect_match "$("$nbdjournal" stats "$control" 2>&1 || true)" 'killed'
serve
expect_match "$("$nbdjournal" stats "$control")" "process $(cat pid)"

# What somebody else put in its place stays.
rm "$control"
echo precious >"$control"
stop_server
expect_equal 'a file in its place' precious "$(cat "$control")"
refused 'no socket'
expect_equal 'a file in its place' precious "$(cat "$control")"
rm "$control"
ln -s "$dir/elsewhere" "$control"
refused 'no socket'
rm "$control"
mkdir "$control"
refused 'no socket'
rmdir "$control"

# Wrong paths.
refused 'No such file' "$dir/missing/control"
refused 'is too long|has room' "$dir/$(printf 'x%.0s' {1..120})"
refused 'names nothing' ''

# A start that fails for another reason takes its socket away.
text=$(expect_failure nbdkit -f -U "$dir/other" "$plugin" file="$dir" control="$control" </dev/null)
[ ! -e "$control" ] || fail "a failed start leaves its socket"

# In the background, from a relative path.
(cd "$dir" && nbdkit -P "$dir/pid2" -U "$socket.2" "$plugin" file="$image" control=relative)
eventually 60 test -s pid2
server=$(cat pid2)
on_exit "kill -9 $server 2>/dev/null"
expect_match "$("$nbdjournal" stats relative)" "process $server"
kill "$server"
wait_gone
[ ! -e relative ] || fail 'the socket is still there'

# Nothing to write: it answers all the same.
serve -r
nbd_script <<'END2'
h.pread(512, 0)
END2
expect_match "$("$nbdjournal" stats "$control")" 'idle'
stop_server
