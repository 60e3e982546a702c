#!/bin/bash
# Wrong parameters get an error that names them; nothing is created and nothing listens.
. "$(dirname "$0")/../lib.sh"

make_image 1M
before=$(ls -A)

# refused REGEX PARAMETER...
refused() {
    local regex=$1 text
    shift
    text=$(expect_failure nbdkit -f -U "$socket" "$plugin" "$@" </dev/null)
    expect_match "$text" "$regex"
    [ ! -e "$socket" ] || fail 'it listens'
    expect_equal 'files afterwards' "$before" "$(ls -A)"
}

refused 'file'
refused 'exclude' file="$image" dir="$dir"
refused 'no/such' dir=no/such
refused 'Not a directory' dir="$image"
refused 'missing\.img' file=missing.img
refused 'nonsense' file="$image" nonsense=1
refused 'journal-size' file="$image" journal-size=100
refused 'journal-size' file="$image" journal-size=1M-1
refused 'journal-size|12x' file="$image" journal-size=12x
refused 'data' file="$image" data=maybe
refused 'bypass' file="$image" bypass=0
refused 'bypass' file="$image" bypass=1x
refused 'recover' file="$image" recover=perhaps
refused 'commit-interval' file="$image" commit-interval=0
refused 'commit-interval' file="$image" commit-interval=soon
refused 'commit-interval' file="$image" commit-interval=nan
refused 'journal' file="$image" journal="$image"
refused 'directory' file="$dir"
refused 'no/such' file="$image" journal="$dir/no/such/journal"
refused 'directory' file="$image" journal="$dir"

truncate -s 0 empty.img
before=$(ls -A)
refused 'empty' file=empty.img
mkfifo pipe
before=$(ls -A)
refused 'pipe' file=pipe
rm pipe empty.img

# What is accepted.
for data in ordered journal; do
    start_server -- file="$image" journal-size=1M data=$data commit-interval=0.5 recover=yes
    stop_server
done
start_server -- file="$image" bypass=1M
stop_server
