#!/bin/bash
# What is no journal, or no good one: each command says so, names it, ends with 2 or 3, and changes
# nothing.
. "$(dirname "$0")/tools.sh"

fill records=10
cp "$journal" good

# bad NAME EXIT REGEX: $dir/bad is refused by every command.
bad() {
    local before
    [ ! -f "$dir/bad" ] || before=$(digest "$dir/bad" "$image")
    for command in info check dump 'dump --json' 'dump --datalog' replay 'resize --size 8M' \
        "adopt $image --yes" "forget $image --yes"; do
        set -- "$1" "$2" "$3" $command
        # forget is also for a journal that is gone.
        [ "$1 $4" != 'missing forget' ] || continue
        expect_exit "$2" "$4" "$dir/bad" "${@:5}"
        expect_match "$out" "$3"
        expect_match "$out" "$dir/bad"
        set -- "$1" "$2" "$3"
    done
    [ ! -f "$dir/bad" ] || expect_equal "$1" "$before" "$(digest "$dir/bad" "$image")"
    rm -rf "$dir/bad"
}

bad missing 3 'No such file'
mkdir bad
bad directory 3 'directory'
: >bad
bad empty 3 'empty'
mkfifo bad
bad pipe 3 'pipe'
head -c 4M /dev/zero >bad
bad zeroes 3 'not a journal'
head -c 4M /dev/urandom >bad
bad garbage 3 'not a journal'
head -c 4M /dev/zero | tr '\0' '\377' >bad
bad ones 3 'not a journal'
cp "$image" bad
bad 'an image' 3 'not a journal'
head -c 100 good >bad
bad 'the first 100 bytes' 3 'bad'
head -c 2M good >bad
bad truncated 2 'truncated'
cp good bad
printf 'X' | write_at bad 100
printf 'X' | write_at bad $((65536 + 100))
bad 'both superblocks' 2 'damaged'
cp good bad
for offset in 8 65544; do
    printf '\377' | write_at bad $offset
done
bad 'a newer version' 3 'newer'
cp good bad
for offset in 12 65548; do
    printf '\1\2\3\4' | write_at bad $offset
done
bad 'the other byte order' 3 'byte order'
