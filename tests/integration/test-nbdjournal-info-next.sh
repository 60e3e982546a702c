#!/bin/bash
# nbdjournal info fits one screen, and what it says to type next does what it says, whatever the paths are.
. "$(dirname "$0")/../lib.sh"

mkdir "it's a disk"
image="$dir/it's a disk/disk one.img"
journal=$image.journal
make_image 8M "$image"

# The command in info that begins with this word.
next() {
    "$nbdjournal" info "$journal" >info
    [ "$(wc -l <info)" -le 24 ] || fail "more than one screen: $(cat info)"
    ! grep -v "$dir" info | grep -E '.{81}' || fail "wider than a screen: $(cat info)"
    sed -n "s/^\(next\|    \) *\($1 .*\)/\2/p" info
}
# run COMMAND: as a person would type it, but with this plugin.
run() {
    local words
    eval "words=($1)"
    [ "${words[0]} ${words[1]}" = 'nbdkit journal' ] || fail "not what was expected: $1"
    rm -f "$socket" pid
    nbdkit -f -P pid -U "$socket" "$plugin" "${words[@]:2}" </dev/null >>"$log" 2>&1 &
    server=$!
    servers+=("$server")
    eventually 60 _answers && [ -s pid ] || fail "does not start: $1"
}
crash() {
    nbd_script <<'END2'
h.pwrite(b"1" * 4096, 0)
h.flush()
END2
    kill_server
}

start_server -- file="$image" journal-size=1M
crash
run "$(next nbdkit)"
nbd_script <<'END2'
assert h.pread(4096, 0) == b"1" * 4096
END2
crash
grep -q '^recovery  *takes about ' info || fail "no time of recovery: $(cat info)"
grep -q '^ *since .* ago), to ' info || fail "not since when: $(cat info)"
replay=$(next nbdjournal)
expect_match "$replay" '^nbdjournal replay '
eval "words=($replay)"
"$nbdjournal" "${words[@]:1}" >/dev/null
expect_equal state clean "$("$nbdjournal" info --json "$journal" | python3 -c 'import json,sys; print(json.load(sys.stdin)["state"])')"
expect_equal image "$(printf '1%.0s' {1..4096})" "$(head -c 4096 "$image")"

# A folder of many: one screen still, those with something waiting first.
. "$(dirname "$0")/folder.sh"
for number in {1..40}; do
    make_image 1M "$disks/disk$number.img"
done
start_folder
for number in {1..40}; do
    disk_write disk$number.img x 0 512
done
disk_write disk37.img x 4096 512
kill_server
run "$(next nbdkit)"
expect_disk disk37.img x 4096 512
kill_server
next nbdkit >/dev/null
expect_match "$(sed -n '/^images/{n;p}' info)" 'disk37.img.*2 records'
expect_match "$(cat info)" 'and 36 more'
