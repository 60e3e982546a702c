# For tests of the built plugin, to be sourced first:
#
#   . "$(dirname "$0")/../lib.sh"
#   requires qemu-io
#   make_image 1G
#   start_server
#   qemu-io -f raw "$uri" ...
#
# Each test runs in a directory of its own, $dir, which is removed when the test ends, as is every
# server that start_server began.  A test fails at the first command that fails.
set -eu -o pipefail

: "${JOURNAL_SOURCE:=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"
: "${JOURNAL_BUILD:=$JOURNAL_SOURCE/build}"

# /usr/bin first: nbdsh and the tests in Python need Debian's python3, which has the nbd module.
PATH=/usr/bin:/usr/sbin:/sbin:$PATH:$JOURNAL_SOURCE/build-deps/bin:$JOURNAL_SOURCE/build-deps/sbin:$JOURNAL_SOURCE/build-deps/usr/bin
export PATH
export LC_ALL=C

# Another plugin shows what a test asks of us that others do not.
plugin=${JOURNAL_PLUGIN-$JOURNAL_BUILD/plugin/nbdkit-journal-plugin.so}
nbdjournal=$JOURNAL_BUILD/tools/nbdjournal/nbdjournal

# Short, since a Unix socket's path has room for 107 bytes.
dir=$(mktemp -d /tmp/journal-test.XXXXXX)
image=$dir/disk.img
journal=$image.journal
socket=$dir/sock
uri="nbd+unix:///?socket=$socket"
server=             # process id of the server that start_server began last
log=$dir/log        # what the servers of this test said

servers=()          # all of them that may still run
cleanups=()         # commands of on_exit, newest first

_exit() {
    local status=$? pid command
    set +e
    trap - EXIT
    for command in ${cleanups[@]+"${cleanups[@]}"}; do
        eval "$command"
    done
    for pid in ${servers[@]+"${servers[@]}"}; do
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    if [ "$status" != 0 ] && [ "$status" != 77 ] && [ -s "$log" ]; then
        echo "--- the servers' log:"
        tail -n 60 "$log"
    fi
    _remove_staging
    cd /
    rm -rf "$dir"
    exit "$status"
}

# A killed server leaves its staging in shared memory for the next start, which never comes here.
_remove_staging() {
    local file uuid
    find "$dir" -type f -size +64k 2>/dev/null | while read -r file; do
        [ "$(head -c 8 "$file" | tr -d '\0')" = NBDKJRNL ] || continue
        uuid=$(od -An -tx1 -j 16 -N 16 "$file" | tr -d ' \n' |
            sed -E 's/(.{8})(.{4})(.{4})(.{4})/\1-\2-\3-\4-/')
        rm -f "/dev/shm/nbdkit-journal-$uuid"
    done
}
trap _exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'echo "$0:$LINENO: failed: $BASH_COMMAND" >&2' ERR

cd "$dir"

# Ends the test, not counted as passed.
skip() {
    echo "skip: $*"
    exit 77
}

fail() {
    echo "${BASH_SOURCE[1]}:${BASH_LINENO[0]}: $*" >&2
    exit 1
}

# Skips unless these programs are there.
requires() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || skip "$program is not installed"
    done
}

requires_filter() {
    nbdkit --dump-plugin --filter="$1" null >/dev/null 2>&1 || skip "nbdkit has no $1 filter"
}

requires_root() {
    [ "$(id -u)" = 0 ] || skip 'needs root'
}

# From now on nbdkit finds the plugin, and the shell our tools, as if they were installed.
commands_by_name() {
    mkdir "$dir/bin"
    cat >"$dir/bin/nbdkit" <<END
#!/bin/bash
for word; do
    shift
    [ "\$word" != journal ] || word=$plugin
    set -- "\$@" "\$word"
done
exec $(command -v nbdkit) "\$@"
END
    chmod +x "$dir/bin/nbdkit"
    ln -s "$nbdjournal" "$JOURNAL_BUILD/tools/nbdload/nbdload" "$dir/bin/"
    PATH=$dir/bin:$PATH
}

# Remembers a command for the end of the test; the last one runs first.
on_exit() {
    cleanups=("$*" ${cleanups[@]+"${cleanups[@]}"})
}

# eventually SECONDS COMMAND...: polls until the command succeeds.  The bound only ends a hang.
eventually() {
    local tries=$(($1 * 20))
    shift
    until "$@" 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.05
    done
}

# make_image SIZE [FILE]: sparse.
make_image() {
    truncate -s "$1" "${2-$image}"
}

# make_random_image SIZE [FILE]: every byte written, the same bytes in each run.
make_random_image() {
    _pattern "$1" >"${2-$image}"
}

_pattern() {
    head -c "$(numfmt --from=iec "$1")" /dev/zero |
        openssl enc -aes-128-ctr -nosalt -K 0123456789abcdef0123456789abcdef -iv 00000000000000000000000000000000
}

# start_server [NBDKIT-OPTION...] [-- PARAMETER...]: serves $image on $uri in the foreground of
# nbdkit, in the background of the test, and returns when it answers.  Parameters default to
# file=$image and a journal so small that it wraps within a test.
start_server() {
    local options=() parameters=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    if [ $# -gt 1 ]; then
        shift
        parameters=("$@")
    else
        parameters=("file=$image" journal-size=4M)
    fi
    rm -f "$socket" "$dir/pid"
    nbdkit -f -P "$dir/pid" -U "$socket" ${options[@]+"${options[@]}"} "$plugin" "${parameters[@]}" \
        </dev/null >>"$log" 2>&1 &
    server=$!
    servers+=("$server")
    # nbdkit writes its process id when it listens.
    eventually 60 _answers || fail 'the server did not start'
    [ -s "$dir/pid" ] || fail 'the server did not start'
}

_answers() {
    [ -s "$dir/pid" ] || ! kill -0 "$server" 2>/dev/null
}

_forget_server() {
    local pid left=()
    for pid in "${servers[@]}"; do
        [ "$pid" = "$server" ] || left+=("$pid")
    done
    servers=(${left[@]+"${left[@]}"})
}

# The crash: nothing of the server runs afterwards.
kill_server() {
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    _forget_server
}

# The clean stop; fails when the server did not exit with 0.
stop_server() {
    local status=0
    kill -TERM "$server"
    wait "$server" || status=$?
    _forget_server
    [ $status = 0 ] || fail "the server ended with $status"
}

# Sets $server to the process of an nbdkit that went to the background: its process id is written a
# moment after the command returned.
find_daemon() {
    eventually 60 test -s "$dir/pid" || fail 'no process id'
    server=$(cat "$dir/pid")
    on_exit "kill -9 $server 2>/dev/null"
}

# Waits for the end of $server when it is no child of ours (it may stay a zombie for a while).
wait_gone() {
    eventually 60 eval '! grep -q "^State:.[^Z]" "/proc/$server/status"' || fail 'the server does not end'
}

# expect_equal WHAT WANTED GOT
expect_equal() {
    [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

# expect_match TEXT REGEX
expect_match() {
    [[ $1 =~ $2 ]] || fail "no match for '$2' in: $1"
}

# expect_failure COMMAND...: it must fail, by exit code and not by a signal; prints what it says.
expect_failure() {
    local status=0
    "$@" 2>&1 || status=$?
    [ $status != 0 ] || fail "succeeded, but must not: $*"
    [ $status -lt 126 ] || fail "ended with $status: $*"
}

# nbdsh with libnbd's `h` connected to $uri; the script comes from standard input.
nbd_script() {
    nbdsh --uri "$uri" -c - "$@"
}
