#!/bin/bash
# dir=: the default export is the only image; when there are more, a client has to name one.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

make_image 1M "$disks/only"
start_folder
nbdsh -u "$uri" -c 'h.pwrite(b"x" * 512, 0)'
expect_disk only x 0 512
make_image 2M "$disks/second"
expect_refused '' '2 images: the client has to name one'
expect_equal size 2097152 "$(nbdinfo --size "$(disk_uri second)")"
stop_server
expect_bytes only x 0 512
