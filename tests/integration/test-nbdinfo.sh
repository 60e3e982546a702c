#!/bin/bash
# nbdinfo: what we promise to clients.
. "$(dirname "$0")/../lib.sh"

requires nbdinfo
make_image 10000001
start_server
text=$(nbdinfo "$uri")
for line in 'export-size: 10000001' 'is_read_only: false' 'can_cache: true' 'can_df: true' \
    'can_fast_zero: true' 'can_flush: true' 'can_fua: true' 'can_multi_conn: true' 'can_trim: true' \
    'can_zero: true' 'block_size_minimum: 1$' 'base:allocation'; do
    grep -q "$line" <<<"$text" || fail "no '$line' in: $text"
done
expect_equal size 10000001 "$(nbdinfo --size "$uri")"
nbdinfo --list "$uri" | grep -q 'export-size: 10000001' || fail 'not in the list of exports'
stop_server
