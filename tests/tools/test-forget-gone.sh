#!/bin/bash
# forget: the image is gone: says how much is lost, does it with --yes, by path or UUID; then the
# journal is clean and takes another image.
. "$(dirname "$0")/tools.sh"
requires_marks

for by in path uuid; do
    rm -f "$image" "$journal" "$expected"
    fill records=20
    rm "$image"
    what=$image
    [ $by = path ] || what=$("$nbdjournal" info --json "$journal" | json 'o["images"][0]["uuid"]')
    before=$(digest "$journal")
    expect_exit 1 forget "$journal" "$what"
    expect_match "$out" '20 records.*lost'
    expect_equal 'without --yes' "$before" "$(digest "$journal")"
    expect_exit 0 forget "$journal" "$what" --yes
    expect_exit 0 check "$journal"
    expect_equal 'images' 0 "$("$nbdjournal" info --json "$journal" | json 'len(o["images"])')"
    expect_exit 3 forget "$journal" "$what" --yes
    make_random_image 2M
    rm -f "$expected"
    fill records=10
    expect_exit 1 check "$journal" "$image"
    expect_match "$out" '10 records'
    expect_exit 0 replay "$journal"
    expect_same "$image" "$expected"
done
