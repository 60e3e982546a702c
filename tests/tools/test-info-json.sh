#!/bin/bash
# info --json: one object, with exact bytes.
. "$(dirname "$0")/tools.sh"

fill records=20 align=512 size=4194304
"$nbdjournal" info "$journal" --json >info.json
expect_equal 'size' 4194304 "$(json 'o["size"]' <info.json)"
expect_equal 'state' 'needs replay' "$(json 'o["state"]' <info.json)"
expect_equal 'records' 20 "$(json 'o["records"]' <info.json)"
expect_equal 'last lsn' True "$(json "o['last_lsn'] >= $(tail -n 1 lsns)" <info.json)"
expect_equal 'image' "$image" "$(json 'o["images"][0]["path"]' <info.json)"
expect_equal 'size of the image' 1048576 "$(json 'o["images"][0]["size"]' <info.json)"
expect_equal 'records of the image' 20 "$(json 'o["images"][0]["records"]' <info.json)"
expect_equal 'in use' False "$(json 'o["in_use"]' <info.json)"
# Every member is in the manual.
for name in $(json '" ".join(o)' <info.json) $(json '" ".join(o["images"][0])' <info.json); do
    sed -n '/^=head2 info/,/^=head2 check/p' "$JOURNAL_SOURCE/docs/nbdjournal.1.pod" |
        grep -qw "$name" || fail "$name is not in the manual"
done
