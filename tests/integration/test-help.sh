#!/bin/bash
# nbdkit --help names every parameter, each at the start of a line (the shell completes from there).
. "$(dirname "$0")/../lib.sh"

text=$(nbdkit --help "$plugin")
for key in file dir journal journal-size data bypass recover control; do
    grep -q "^\[\?$key=" <<<"$text" || fail "no line for $key= in: $text"
done
