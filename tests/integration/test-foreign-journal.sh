#!/bin/bash
# P6: what is no journal of ours is refused in a moment, by name, and not modified.
. "$(dirname "$0")/../lib.sh"

make_image 8M
mkdir bad
head -c 4M /dev/urandom >bad/random
head -c 4M /dev/zero >bad/zero
tr '\0' '\377' <bad/zero >bad/ones
truncate -s 4M bad/ext4
mkfs.ext4 -q bad/ext4
truncate -s 0 bad/empty
head -c 100 /dev/urandom >bad/short
echo hello >bad/text
# A true one, damaged in both superblocks, in its magic number, cut short.
make_image 8M other.img
start_server -- file=other.img journal-size=1M
stop_server
cp other.img.journal bad/cut
truncate -s 600K bad/cut
cp other.img.journal bad/header
printf 'XXXX' | dd of=bad/header conv=notrunc status=none
dd if=/dev/urandom of=bad/header bs=64K seek=1 count=1 conv=notrunc status=none
dd if=/dev/urandom of=bad/header bs=512 seek=1 count=1 conv=notrunc status=none
cat "$image" >whole

for file in bad/*; do
    sha256sum "$file" whole >before
    text=$(ulimit -v 4000000; expect_failure timeout 20 nbdkit -f -U "$socket" "$plugin" file="$image" journal="$file" </dev/null)
    expect_match "$text" "$file"
    sha256sum --quiet -c before || fail "$file was modified"
    cmp "$image" whole
    expect_equal "marks after $file" '' "$(getfattr -d "$image" 2>/dev/null)"
done
