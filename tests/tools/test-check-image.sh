#!/bin/bash
# check JOURNAL IMAGE: is it the one that the journal knows?
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=5
expect_exit 1 check "$journal" "$image"
expect_match "$out" "$image: the image that the journal knows"
# The same bytes, the same mark, and yet another file.
cp --preserve=xattr "$image" "$dir/copy.img"
expect_exit 2 check "$journal" "$dir/copy.img"
expect_match "$out" 'adopt'
make_image 1M "$dir/other.img"
expect_exit 2 check "$journal" "$dir/other.img"
expect_exit 2 check "$journal" "$image" "$dir/other.img"
# Nobody knows it, and nothing waits: it is not the journal's, all the same.
expect_exit 0 replay "$journal"
expect_exit 0 check "$journal" "$image"
expect_exit 2 check "$journal" "$dir/other.img"
expect_match "$out" 'not an image of this journal'
expect_exit 0 create "$dir/fresh.journal" --size 1M
expect_exit 0 check "$dir/fresh.journal" "$dir/other.img"
rm "$image" "$journal" "$expected"
fill records=5
expect_exit 3 check "$journal" "$dir/missing.img"
truncate -s 512K "$image"
expect_exit 2 check "$journal" "$image"
