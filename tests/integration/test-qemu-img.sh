#!/bin/bash
# qemu-img: convert to us and from us, and compare.
. "$(dirname "$0")/../lib.sh"

requires qemu-img
make_random_image 24M source
# A hole, zeroes, and a size that is no multiple of a sector.
fallocate -p -o 4M -l 4M source
fallocate -z -o 12M -l 1M source
truncate -s $((24 * 1024 * 1024 + 512)) source
cp --sparse=always source "$image"
make_random_image 24M "$image"
truncate -s $((24 * 1024 * 1024 + 512)) "$image"

start_server
qemu-img convert -n -W -m 8 -f raw -O raw source "$uri"
qemu-img compare -q -f raw -F raw source "$uri"
kill_server
start_server
qemu-img compare -q -f raw -F raw source "$uri"
qemu-img convert -f raw -O qcow2 "$uri" copy.qcow2
stop_server
qemu-img compare -q -f raw -F qcow2 source copy.qcow2
cmp source "$image"
