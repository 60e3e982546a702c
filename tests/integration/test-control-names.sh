#!/bin/bash
# stats: the name of an image, whatever it is, stays in its line and does not command the terminal.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/folder.sh"
requires nbdsh

name=$'two\rlines \e[7m.img'
make_image 1M "$disks/$name"
start_folder control="$dir/control"
nbdsh -c 'h.set_export_name("two\rlines \x1b[7m.img")' -c "h.connect_unix('$socket')" -c 'h.pwrite(b"x", 0)'
"$nbdjournal" stats "$dir/control" >stats
grep -q '^  two?lines ?\[7m.img  ' stats || fail "$(cat -A stats)"
