#!/bin/bash
# The luks filter on us: its container survives kill -9, and is a plain one for qemu afterwards.
. "$(dirname "$0")/../lib.sh"

requires qemu-img qemu-io
requires_filter luks

secret=(--object secret,id=key,data=hunter2)
# Its key derivation measures the processor, and gives up when that was given to others meanwhile.
made() {
    qemu-img create -q "${secret[@]}" -f luks -o key-secret=key,iter-time=10 "$image" 16M
}
eventually 60 made
chmod 600 "$image"

start_server --filter=luks -- file="$image" passphrase=hunter2
expect_equal size $((16 << 20)) "$(nbdinfo --size "$uri")"
qemu-io -f raw "$uri" -c 'write -P 0x41 0 1M' -c 'write -P 0x42 5M 64k' -c 'write -f -P 0x43 15M 1M' -c flush
kill_server

start_server --filter=luks -- file="$image" passphrase=hunter2
qemu-io -f raw "$uri" -c 'read -P 0x41 0 1M' -c 'read -P 0x42 5M 64k' -c 'read -P 0x43 15M 1M'
qemu-io -f raw "$uri" -c 'write -P 0x44 512 512'
stop_server

options="driver=luks,key-secret=key,file.driver=file,file.filename=$image"
qemu-io "${secret[@]}" --image-opts "$options" -c 'read -P 0x41 0 512' -c 'read -P 0x44 512 512' \
    -c 'read -P 0x42 5M 64k' -c 'read -P 0x43 15M 1M'
