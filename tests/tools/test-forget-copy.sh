#!/bin/bash
# forget with a copy of the image, mark and all: what waits is for the original, which is in its place. Only
# the copy loses its mark.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20
cp --preserve=xattr "$image" copy.img
cp copy.img before.img
original=$(digest "$journal" "$image")
expect_exit 1 forget "$journal" copy.img
expect_match "$out" "copy of $image"
expect_marked copy.img
expect_exit 0 forget "$journal" copy.img --yes
expect_unmarked copy.img
expect_same copy.img before.img
expect_equal 'the original' "$original" "$(digest "$journal" "$image")"
expect_exit 1 check "$journal" "$image"

# The original is gone, the copy has taken its place: now there is none else to whom it belongs.
cp --preserve=xattr "$image" copy.img
rm "$image"
expect_exit 1 forget "$journal" copy.img
expect_match "$out" '20 records'
expect_exit 0 forget "$journal" copy.img --yes
expect_unmarked copy.img
expect_exit 0 check "$journal"
