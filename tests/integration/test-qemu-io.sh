#!/bin/bash
# qemu-io as a client: writes, zeroes, discards, flushes, and all of it is there after kill -9.
. "$(dirname "$0")/../lib.sh"

requires qemu-io
make_image 64M
start_server
qemu-io -f raw -d unmap "$uri" -c 'write -P 0x11 0 1M' -c 'write -f -P 0x22 1M 64k' \
    -c 'write -z 512k 4k' -c 'write -zu 520k 4k' -c 'discard 600k 8k' -c 'flush' \
    -c 'aio_write -P 0x33 32M 4M' -c 'aio_write -P 0x44 40M 4M' -c 'aio_flush' \
    -c 'writev -P 0x55 50M 512 1k 4k'
check() {
    qemu-io -f raw "$1" -c 'read -P 0x11 0 512k' -c 'read -P 0 512k 4k' -c 'read -P 0x11 516k 4k' \
        -c 'read -P 0 520k 4k' -c 'read -P 0x11 524k 76k' -c 'read -P 0 600k 8k' -c 'read -P 0x11 608k 416k' \
        -c 'read -P 0x22 1M 64k' -c 'read -P 0x33 32M 4M' -c 'read -P 0x44 40M 4M' -c 'read -P 0x55 50M 5632' \
        >out || { cat out; fail "wrong bytes in $1"; }
    # qemu-io says so and goes on.
    ! grep -i 'failed\|error' out || fail "wrong bytes in $1"
}
check "$uri"
kill_server
start_server
check "$uri"
stop_server
check "$image"
