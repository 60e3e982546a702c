#!/bin/bash
# scripts/serve with a wrong path says what is wrong at once, before it installs or builds anything.
. "$(dirname "$0")/../lib.sh"

mkdir sources
cp -r "$JOURNAL_SOURCE/scripts" sources/
serve=$dir/sources/scripts/serve
# What comes after the look at the path must not be reached.
printf '#!/bin/sh\ntouch "%s/reached"\nexit 1\n' "$dir" >sources/scripts/install-deps

# refused REGEX PATH
refused() {
    expect_match "$(expect_failure "$serve" "$2" </dev/null)" "$1"
    [ ! -e reached ] || fail "the path $2 is looked at too late"
}
refused "no folder $dir/no/such .*mkdir" no/such/disk.img
refused 'is a folder' "$dir"
mkfifo pipe
refused 'neither a file nor a block device' pipe

# A good one goes on from there.
make_image 1M good.img
expect_failure "$serve" good.img </dev/null >/dev/null
[ -e reached ] || fail 'the test looks at nothing'
rm reached
expect_failure "$serve" new.img </dev/null >/dev/null
[ -e reached ] || fail 'the test looks at nothing'
