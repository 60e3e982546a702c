#!/bin/bash
# dir=: a file that appears while the server runs can be used at once, and one that is gone makes room.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

make_image 1M "$disks/a"
start_folder
disk_write a a 0 4096 flush
make_image 2M "$disks/b"
disk_write b b 4096 8192 flush
expect_equal size 2097152 "$(nbdinfo --size "$(disk_uri b)")"
kill_server
start_folder
expect_disk a a 0 4096
expect_disk b b 4096 8192
stop_server
expect_bytes a a 0 4096
expect_bytes b b 4096 8192

# Another file by the same name, once nothing waits for the first one.
start_folder
rm "$disks/b"
make_image 3M "$disks/b"
disk_write b c 0 512 flush
stop_server
expect_equal size $((3 << 20)) "$(stat -c %s "$disks/b")"
expect_bytes b c 0 512
