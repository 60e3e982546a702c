#!/bin/bash
# replay: an image that is not there, or is another one, is named with the way out; nothing changes.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=10
mv "$image" "$dir/moved.img"
before=$(digest "$journal")
expect_exit 3 replay "$journal"
expect_match "$out" "$image"
expect_match "$out" 'forget'
make_image 1M
expect_exit 3 replay "$journal"
expect_match "$out" 'adopt'
expect_exit 3 replay "$journal" "$image" "$dir/moved.img"
make_image 1M "$dir/other.img"
expect_exit 3 replay "$journal" "$dir/other.img"
expect_equal 'the journal' "$before" "$(digest "$journal")"
expect_equal 'the wrong image' "$(head -c 1M /dev/zero | sha256sum)" "$(sha256sum <"$image")"
rm "$image"
# Moved within the file system: the same file, found by path.
expect_exit 3 replay "$journal" "$dir/moved.img" "$dir/moved.img"
expect_match "$out" 'twice'
expect_exit 0 replay "$journal" "$dir/moved.img"
expect_same "$dir/moved.img" "$expected"
