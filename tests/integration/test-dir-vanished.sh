#!/bin/bash
# dir=: an image that vanished with data waiting: named once, its data is kept, the others go on, and
# only nbdjournal forget drops it.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

make_image 16M "$disks/a"
make_image 16M "$disks/b"
start_folder data=journal
disk_write a a 0 65536 flush
disk_write b b 0 4096 flush
kill_server
mv "$disks/a" "$dir/away"

start_folder data=journal
for i in {1..6}; do # several times around the ring
    nbdsh -u "$(disk_uri b)" -c 'for i in range(8): h.pwrite(bytes([65 + i]) * (1 << 20), i << 20)' -c 'h.flush()'
done
expect_equal 'times it is named' 1 "$(grep -c 'disks/a: data waits for it' "$log")"
expect_match "$(grep 'disks/a: data waits for it' "$log")" 'nbdjournal forget'
expect_refused a 'there is no image'
stop_server
expect_match "$(tail -n 1 "$log")" 'stopped, not drained'

# It comes back: all of it is there.
mv "$dir/away" "$disks/a"
start_folder
expect_disk a a 0 65536
expect_disk b B 1048576 1048576
stop_server
expect_match "$(tail -n 1 "$log")" 'stopped, drained'
expect_bytes a a 0 65536
! is_marked a || fail 'a is marked'

# Gone for good.
start_folder
disk_write a x 0 4096 flush
disk_write b y 0 4096 flush
kill_server
rm "$disks/a"
"$nbdjournal" forget "$journal" "$disks/a" --yes
start_folder
disk_write b z 4096 4096 flush
stop_server
expect_match "$(tail -n 1 "$log")" 'stopped, drained'
expect_bytes b y 0 4096
