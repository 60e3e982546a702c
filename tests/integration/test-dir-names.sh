#!/bin/bash
# dir=: a name that would leave the folder, or is no name of an image, is refused with the reason.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

make_image 1M "$disks/a"
make_image 1M "$disks/b"
make_image 1M "$dir/outside"
mkdir "$disks/sub"
make_image 1M "$disks/sub/inner"
start_folder
expect_refused ../outside "without a '/'"
expect_refused ../disks/a "without a '/'"
expect_refused "%2Fetc%2Fpasswd" "without a '/'"
expect_refused sub/inner "without a '/'"
expect_refused .. 'begin with a dot'
expect_refused . 'begin with a dot'
expect_refused sub 'is a directory'
expect_refused nothing 'there is no image'
expect_refused "$(printf 'n%.0s' {1..300})" 'too long'
expect_disk a '\0' 0 512
stop_server
