# Roots of their own for the packages, to be sourced after lib.sh.
#
#   requires_roots
#   make_root NAME             unpacks build-deps/NAME.tar.zst as $dir/NAME
#   in_root NAME COMMAND...    runs it there, with /proc and the machine's /dev/shm
#   exec_in_root NAME COMMAND...   becomes it: in the background $! is then the command itself

requires_roots() {
    requires_root
    requires unshare chroot zstd lintian dpkg-deb mmdebstrap
    unshare -m true 2>/dev/null || skip 'no mount name space of our own here'
}

make_root() {
    local tar=$JOURNAL_SOURCE/build-deps/$1.tar.zst
    [ -e "$tar" ] || fail "there is no $tar: run scripts/install-deps"
    mkdir "$dir/$1"
    tar -x --zstd -C "$dir/$1" -f "$tar"
}

in_root() {
    (exec_in_root "$@")
}

exec_in_root() {
    local root=$dir/$1
    shift
    # What is mounted there is gone with its last process.
    exec unshare -m sh -eu -c '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mkdir -p "$root/dev/shm"
        mount --bind /dev/shm "$root/dev/shm"
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
    ' sh "$root" "$@"
}
