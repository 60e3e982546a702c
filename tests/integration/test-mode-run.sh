#!/bin/bash
# nbdkit -U - --run: serves for one command, passes its exit code on, and leaves the image complete.
. "$(dirname "$0")/../lib.sh"

requires nbdcopy
make_image 16M
make_random_image 16M source

nbdkit -U - "$plugin" file="$image" --run 'nbdcopy source "$uri"'
cmp source "$image"

status=0
nbdkit -U - "$plugin" file="$image" --run 'nbdcopy "$uri" copy && exit 42' || status=$?
expect_equal 'exit code' 42 "$status"
cmp source copy
