#!/bin/bash
# dir=: each regular file is listed as an export, with its size, and has a description; nothing else is.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

make_image 1M "$disks/one"
make_image 2M "$disks/two.img"
make_image 3M "$disks/with blank"
make_image 1M "$disks/.hidden"
ln -s one "$disks/link"
mkdir "$disks/folder"
mkfifo "$disks/pipe"
: >"$disks/empty"
"$nbdjournal" create "$disks/other.journal" --size 1M
start_folder
list=$(nbdinfo --list --json "$uri")
expect_equal exports 'one two.img with blank' \
    "$(python3 -c 'import json, sys; print(*[e["export-name"] for e in json.load(sys.stdin)["exports"]])' <<<"$list")"
expect_equal sizes '1048576 2097152 3145728' \
    "$(python3 -c 'import json, sys; print(*[e["export-size"] for e in json.load(sys.stdin)["exports"]])' <<<"$list")"
expect_match "$list" '"description": "[^"]*journal'
expect_equal journal $((4 << 20)) "$(stat -c %s "$journal")"
stop_server
