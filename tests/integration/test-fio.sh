#!/bin/bash
# fio with its nbd engine: random writes of odd sizes with verification, over several jobs; then once more
# after kill -9.
. "$(dirname "$0")/../lib.sh"

requires fio
fio --enghelp=nbd >/dev/null 2>&1 || skip 'fio has no nbd engine'
make_image 64M

cat >job <<END
[global]
ioengine=nbd
uri=$uri
size=16M
offset_increment=16M
bsrange=512-64k
bs_unaligned=1
iodepth=16
verify=crc32c
verify_fatal=1
verify_state_save=0
randseed=7
[disk]
rw=randwrite
fsync=32
numjobs=4
END
start_server
fio job >out 2>&1 || { cat out; fail 'fio failed'; }
kill_server
start_server
fio --verify_only=1 job >out 2>&1 || { cat out; fail 'fio found wrong bytes after kill -9'; }
stop_server
