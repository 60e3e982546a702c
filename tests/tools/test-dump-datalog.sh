#!/bin/bash
# dump --datalog: an independent reader, Debian's nbd-trplay, makes of it what replay makes of the
# journal.
. "$(dirname "$0")/tools.sh"
requires nbd-trplay nbd-trdump

for align in 4096 512 1; do
    rm -f "$image" "$journal" "$expected"
    # nbd-trplay writes block by block: byte by byte is slow.
    fill records=60 align=$align max=$((align == 1 ? 2000 : 65536)) size=8M seed=$align
    cp "$image" copy.img
    "$nbdjournal" dump "$journal" --datalog >datalog 2>said
    block=$(sed -n 's/.* -b \([0-9]*\)$/\1/p' said)
    expect_equal "block of $align" 1 "$((block % align == 0))"
    nbd-trplay -i copy.img -l datalog -b "$block" >/dev/null
    expect_equal 'requests' 60 "$(nbd-trdump <datalog | grep -c '^>')"
    expect_equal 'replies' 60 "$(nbd-trdump <datalog | grep -c '^<.*E=0x00000000')"
    expect_equal 'FUA' 12 "$(nbd-trdump <datalog | grep -c '^>.*+ *FUA')"
    expect_exit 0 replay "$journal"
    expect_same copy.img "$image"
    expect_same copy.img "$expected"
done

# Nothing waits: a log without requests.
"$nbdjournal" dump "$journal" --datalog >datalog 2>/dev/null
nbd-trplay -i copy.img -l datalog >/dev/null
expect_same copy.img "$image"
