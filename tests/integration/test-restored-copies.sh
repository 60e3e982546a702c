#!/bin/bash
# P6: copies of an image or a journal that do not fit together are refused, with both files named and
# nothing modified: an older journal restored, the pair crossed with another, a copy of either.
. "$(dirname "$0")/../lib.sh"

# The image's first block is $1, flushed, and the server is killed.
write_and_die() {
    nbd_script <<END
h.pwrite(b"$1" * 4096, 0)
h.flush()
END
    kill_server
}

# refused IMAGE JOURNAL REGEX
refused() {
    local text
    sha256sum "$1" "$2" >before
    getfattr -d "$1" >>marks-before 2>/dev/null || true
    text=$(expect_failure timeout 20 nbdkit -f -U "$socket" "$plugin" file="$1" journal="$2" </dev/null)
    expect_match "$text" "$3"
    expect_match "$text" "$1"
    sha256sum --quiet -c before || fail "$1 or $2 was modified"
    getfattr -d "$1" >marks-after 2>/dev/null || true
    expect_equal marks "$(cat marks-before)" "$(cat marks-after)"
    rm -f marks-before
}

# shows IMAGE JOURNAL LETTER
shows() {
    start_server -- file="$1" journal="$2"
    nbd_script <<END
assert h.pread(4096, 0) == b"$3" * 4096
END
    stop_server
}

make_image 8M
start_server
nbd_script <<'END'
h.pwrite(b"a" * 4096, 0)
END
stop_server

# The usual backup: both files, while nobody uses them.  Then a day's work, a crash, and only the
# journal is brought back.
cp "$journal" backup
start_server
write_and_die b
getfattr -d "$image" 2>/dev/null | grep -q journal || skip 'no extended attributes here'
cp "$journal" real
cat backup >"$journal"
refused "$image" "$journal" 'restored from a copy'

# The same with one more life in between.
cat real >"$journal"
start_server
write_and_die c
cp "$journal" real
cat backup >"$journal"
refused "$image" "$journal" 'restored from a copy'

# An older journal that is as dirty as the new one.
cat real >"$journal"
cp "$journal" backup
start_server
write_and_die d
cp "$journal" real
cat backup >"$journal"
refused "$image" "$journal" 'restored from a copy'
cat real >"$journal"

# A copy of the journal beside the real one.
cp "$journal" twin
refused "$image" "$dir/twin" 'is a copy of that one'
rm twin

# Copies of the image, with and without its mark.
cp --preserve=all "$image" "$dir/copy"
refused "$dir/copy" "$journal" 'is a copy'
rm copy
cp "$image" "$dir/copy"
refused "$dir/copy" "$journal" 'data waits in journal'

# Another pair of the same size, crossed.
make_image 8M other.img
start_server -- file="$dir/other.img" journal-size=4M
write_and_die x
refused "$dir/other.img" "$journal" 'belongs to another journal'
refused "$image" "$dir/other.img.journal" 'belongs to another journal'

# All of that did no harm; and moving a journal is no copying.
shows "$dir/other.img" "$dir/other.img.journal" x
mv "$journal" moved
shows "$image" "$dir/moved" d
cmp -n 4096 "$image" <(head -c 4096 /dev/zero | tr '\0' d)

# Drained, every copy of the image is as good as the image, and the journal takes it.
cp "$image" "$dir/copy"
shows "$dir/copy" "$dir/moved" d
