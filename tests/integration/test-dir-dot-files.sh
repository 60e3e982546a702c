#!/bin/bash
# dir=: dot files and journals are no exports, by their names or by what they are.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

make_image 1M "$disks/a"
make_image 1M "$disks/.hidden"
"$nbdjournal" create "$disks/a.journal" --size 1M
start_folder
expect_refused .hidden 'begin with a dot'
expect_refused .journal 'begin with a dot'
expect_refused a.journal 'is a journal, not an image'
stop_server

# The folder's own journal under a name without a dot.
rm "$disks/.journal"
start_server -- dir="$disks" journal="$disks/ours" journal-size=4M
disk_write a x 0 512
expect_refused ours 'ours is in use by this process|is a journal'
stop_server
[ ! -e "$disks/.journal" ] || fail 'another journal was made'
