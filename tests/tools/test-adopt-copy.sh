#!/bin/bash
# adopt: a pair that was copied is refused; adopt says what differs and changes nothing; with --yes
# the copy is the image, and gets what waited.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20
mkdir other
cp --preserve=xattr "$journal" other/journal
cp --preserve=xattr "$image" other/image
expect_exit 3 replay other/journal other/image
before=$(digest other/journal other/image)
expect_exit 1 adopt other/journal other/image
expect_match "$out" 'another file'
expect_match "$out" '20 records'
expect_match "$out" '--yes'
expect_equal 'without --yes' "$before" "$(digest other/journal other/image)"
expect_exit 0 adopt other/journal other/image --yes
expect_exit 1 check other/journal other/image
expect_exit 0 adopt other/journal other/image
expect_match "$out" 'nothing differs'
expect_exit 0 replay other/journal
expect_same other/image "$expected"
# The original is as it was.
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
