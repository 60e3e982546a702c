#!/bin/bash
# dump --datalog of what a killed server left: nbd-trplay makes of it what replay makes.
. "$(dirname "$0")/../tools/tools.sh"
requires nbd-trplay

make_random_image 4M
cp "$image" "$expected"
start_server
nbd_script <<'END'
import random
rng = random.Random(7)
for i in range(100):
    offset, length = rng.randrange(1000) * 4096, rng.randint(1, 20) * 4096
    if i % 9 == 0:
        h.trim(length, offset)
    elif i % 9 == 1:
        h.zero(length, offset)
    else:
        h.pwrite(rng.randbytes(length), offset)
END
kill_server
cp "$image" copy.img
"$nbdjournal" dump --datalog "$journal" >datalog 2>said
nbd-trplay -i copy.img -l datalog -b "$(sed -n 's/.* -b \([0-9]*\)$/\1/p' said)" >/dev/null
expect_exit 0 replay "$journal"
expect_same copy.img "$image"
