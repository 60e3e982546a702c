#!/bin/bash
# resize: impossible sizes, a missing image, an image whose size changed with data waiting: refused,
# nothing changes.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20
before=$(digest "$journal" "$image")
for size in 0 1 1048575 65T x; do
    expect_exit 3 resize "$journal" --size $size
    expect_match "$out" 'size'
done
expect_exit 3 resize "$journal"
expect_equal 'sizes' "$before" "$(digest "$journal" "$image")"
truncate -s 2M "$image"
before=$(digest "$journal" "$image")
expect_exit 3 resize "$journal" --size 8M
expect_match "$out" 'adopt'
expect_equal 'another size' "$before" "$(digest "$journal" "$image")"
truncate -s 1M "$image"
mv "$image" gone
before=$(digest "$journal")
expect_exit 3 resize "$journal" --size 8M
expect_match "$out" "$image"
expect_equal 'no image' "$before" "$(digest "$journal")"
