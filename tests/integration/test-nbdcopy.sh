#!/bin/bash
# nbdcopy: to us, from us, and from one disk of ours to another, with several connections.
. "$(dirname "$0")/../lib.sh"

requires nbdcopy
make_random_image 32M source
fallocate -p -o 8M -l 8M source
make_image 32M

start_server
nbdcopy --connections=4 --flush source "$uri"
nbdcopy --connections=4 "$uri" copy
cmp source copy
kill_server

start_server
nbdcopy "$uri" copy
cmp source copy
first=$uri first_image=$image
socket=$dir/second.sock
uri="nbd+unix:///?socket=$socket"
image=$dir/second.img
make_random_image 32M
start_server
nbdcopy --connections=2 "$first" "$uri"
stop_server
cmp source "$image"
