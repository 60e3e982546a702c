#!/bin/bash
# replay: a journal whose durable part is damaged is refused, with the place; the way out that the
# error names brings home what is whole, and only with --yes.
. "$(dirname "$0")/tools.sh"

fill records=40 commit=5
"$nbdjournal" dump --json --image 1 "$journal" >dump.json
victim=$(sed -n 17p dump.json)
lsn=$(sed -n 16p lsns)
position=$(json 'o["position"]' <<<"$victim")
start=$("$nbdjournal" info --json "$journal" | json 'o["size"] - o["ring_bytes"]')
cp "$image" image.saved
cp --preserve=all "$journal" journal.saved

for place in 0 20 127 129; do
    cat journal.saved >"$journal"
    byte=$(od -An -tu1 -j $((start + position + place)) -N 1 "$journal")
    printf "\\x$(printf %02x $((byte ^ 255)))" | write_at "$journal" $((start + position + place))
    before=$(digest "$journal" "$image")
    expect_exit 2 replay "$journal"
    expect_match "$out" "at byte $((start + position))"
    expect_match "$out" "--to $lsn"
    expect_exit 2 replay "$journal" --yes
    expect_exit 2 replay "$journal" --to $((lsn + 1)) --yes
    expect_exit 1 replay "$journal" --to "$lsn"
    expect_equal 'journal and image' "$before" "$(digest "$journal" "$image")"
    expect_equal 'dumped' 16 "$("$nbdjournal" dump --json --image 1 "$journal" 2>/dev/null | wc -l || true)"
done
expect_exit 0 replay "$journal" --to "$lsn" --yes
expect_exit 0 check "$journal" "$image"

# What the first 16 changes make.
cp image.saved first.img
cp image.saved first.expected
"$make_journal" "$dir/first.journal" first.img first.expected records=16 commit=5 >/dev/null
expect_same "$image" first.expected
# And life goes on.
cp "$image" "$expected"
fill records=10 seed=2
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
