#!/bin/bash
# A server is killed after large writes that went straight to the image, and that nobody has flushed.  They
# are made durable by a barrier of their own before the image is called complete, and before its mark is
# written: the fsync of that would be the one that is told if they can't be.
. "$(dirname "$0")/../tools/tools.sh"
requires strace nbdsh
requires_marks

write_large() {
    nbdsh -u "$uri" -c 'h.pwrite(b"B" * 300000, 1000001)'
}

# One letter a call on the image: F(lush), M(ark), R(emove mark).
calls() {
    sed -nE -e "s,^([0-9]+ +)?(fdatasync|fsync)\([0-9]+<$1>.*,F,p" \
        -e "s,^([0-9]+ +)?fsetxattr\([0-9]+<$1>.*,M,p" \
        -e "s,^([0-9]+ +)?fremovexattr\([0-9]+<$1>.*,R,p" trace | tr -d '\n'
}

traced() {
    ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -f -y -o trace \
        -e trace=fdatasync,fsync,fsetxattr,fremovexattr "$@" >/dev/null
}

is_traced() {
    ! grep -q '^TracerPid:.0$' /proc/"$server"/task/*/status
}

trace_server() {
    strace -f -y -o trace -e trace=fdatasync,fsync,fsetxattr,fremovexattr -p "$server" 2>/dev/null &
    tracer=$!
    on_exit "kill $tracer 2>/dev/null"
    eventually 60 is_traced || skip 'strace may not trace the server'
}

make_image 8M
start_server
write_large
kill_server
traced "$nbdjournal" replay "$journal"
expect_match "$(calls "$image")" '^FMF'

# Without a mark the tool finds the image by its name, and flushes it all the same.
start_server
write_large
kill_server
setfattr -x user.nbdkit.journal "$image"
traced "$nbdjournal" replay "$journal"
expect_match "$(calls "$image")" '^F'

start_server
write_large
kill_server
start_server
trace_server
nbdsh -u "$uri" -c 'h.pread(1, 0)'
stop_server
wait "$tracer" || true
expect_match "$(calls "$image")" '^FMF'
