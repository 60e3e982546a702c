#!/bin/bash
# dir=: a symbolic link is no export, wherever it leads, also when it takes an image's place.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

make_image 1M "$disks/a"
make_image 1M "$dir/outside"
ln -s a "$disks/inside"
ln -s ../outside "$disks/out"
start_folder
expect_refused inside 'symbolic link'
expect_refused out 'symbolic link'
mv "$disks/a" "$disks/b"
ln -s ../outside "$disks/a"
expect_refused a 'symbolic link'
expect_disk b '\0' 0 512
stop_server
