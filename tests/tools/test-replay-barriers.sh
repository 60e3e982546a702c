#!/bin/bash
# replay: what it writes is durable in the order that a power cut needs: what recovery found; the mark;
# the superblock of the new epoch; then the image; then the superblock that says clean; then the mark
# goes.
. "$(dirname "$0")/tools.sh"
requires strace
requires_marks

fill records=30
ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -y -o trace \
    -e trace=pwritev,pwrite64,fallocate,fdatasync,fsync,fsetxattr,fremovexattr \
    "$nbdjournal" replay "$journal" >/dev/null
# One letter a call: of the journal w(rite), f(lush); of the image W, F, M(ark), R(emove mark).
calls=$(sed -nE \
    -e "s,^(pwritev|pwrite64|fallocate)\([0-9]+<$journal>.*,w,p" \
    -e "s,^(fdatasync|fsync)\([0-9]+<$journal>.*,f,p" \
    -e "s,^(pwritev|pwrite64|fallocate)\([0-9]+<$image>.*,W,p" \
    -e "s,^(fdatasync|fsync)\([0-9]+<$image>.*,F,p" \
    -e "s,^fsetxattr\([0-9]+<$image>.*,M,p" \
    -e "s,^fremovexattr\([0-9]+<$image>.*,R,p" trace | tr -d '\n')
expect_match "$calls" '^f+MF+wfW+F+wfRF*$'
