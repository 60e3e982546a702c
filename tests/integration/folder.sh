# For tests of dir=: images in $disks, served on $socket.  To be sourced after lib.sh.
disks=$dir/disks
mkdir "$disks"
journal=$disks/.journal

# start_folder [PARAMETER...]
start_folder() {
    start_server -- dir="$disks" journal-size=4M "$@"
}

# disk_uri NAME
disk_uri() {
    echo "nbd+unix:///$1?socket=$socket"
}

# disk_write NAME BYTE OFFSET COUNT [flush]: COUNT times this byte.
disk_write() {
    nbdsh -u "$(disk_uri "$1")" -c "h.pwrite(b'$2' * $4, $3)" ${5:+-c 'h.flush()'}
}

# expect_disk NAME BYTE OFFSET COUNT: as a client sees it.
expect_disk() {
    nbdsh -u "$(disk_uri "$1")" -c "assert h.pread($4, $3) == b'$2' * $4, 'disk $1'"
}

# expect_bytes NAME BYTE OFFSET COUNT: as the file is.
expect_bytes() {
    expect_equal "file $1" "$(printf "%$4s" | tr ' ' "$2" | sha256sum)" \
        "$(tail -c +$(($3 + 1)) "$disks/$1" | head -c "$4" | sha256sum)"
}

# expect_refused NAME REGEX: the client is refused, and the log says why.
expect_refused() {
    local before
    before=$(wc -l <"$log")
    expect_failure nbdinfo --size "$(disk_uri "$1")" >refusal
    expect_match "$(tail -n +$((before + 1)) "$log")" "$2"
}

is_marked() {
    getfattr --only-values -n user.nbdkit.journal "$disks/$1" 2>/dev/null | grep -q .
}
