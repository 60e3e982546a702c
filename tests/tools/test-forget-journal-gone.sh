#!/bin/bash
# forget: the journal is gone too: the image's mark goes, only with --yes, and never while the journal
# that it names is there.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20
cp "$image" before.img
expect_exit 3 forget "$dir/no.journal" "$image" --yes
expect_match "$out" "$journal"
expect_marked "$image"
mv "$journal" away
expect_exit 1 forget "$journal" "$image"
expect_match "$out" 'lost'
expect_marked "$image"
expect_exit 0 forget "$journal" "$image" --yes
expect_unmarked "$image"
expect_same "$image" before.img
expect_exit 0 forget "$journal" "$image"
expect_exit 3 forget "$journal" "$dir/no.img"
# The journal comes back: it still knows the image, which has no mark: refused, and forget helps.
mv away "$journal"
expect_exit 3 replay "$journal"
expect_exit 0 forget "$journal" "$image" --yes
expect_exit 0 check "$journal"
