#!/bin/bash
# forget: the image is there: it keeps its contents and loses its mark.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20
cp "$image" before.img
expect_exit 1 forget "$journal" "$image"
expect_marked "$image"
expect_exit 0 forget "$journal" "$image" --yes
expect_unmarked "$image"
expect_same "$image" before.img
expect_exit 0 check "$journal" "$image"
