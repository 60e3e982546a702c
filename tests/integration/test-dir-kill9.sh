#!/bin/bash
# dir=: kill -9 with data of several disks waiting: all of it is there, whoever is opened next.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/integration/folder.sh"

for i in 1 2 3 4 5; do
    make_image 1M "$disks/d$i"
done
start_folder
for i in 1 2 3 4 5; do
    disk_write "d$i" "$i" 0 10000
done
kill_server
expect_bytes d1 '\000' 0 10000

start_folder
for i in 5 1 3; do
    expect_disk "d$i" "$i" 0 10000
done
disk_write d2 x 20000 100
kill_server

# A life that only opens one of them.
start_folder
disk_write d1 y 20000 100 flush
kill_server

start_folder
for i in 1 2 3 4 5; do
    expect_disk "d$i" "$i" 0 10000
done
expect_disk d2 x 20000 100
expect_disk d1 y 20000 100
stop_server
for i in 1 2 3 4 5; do
    expect_bytes "d$i" "$i" 0 10000
done
