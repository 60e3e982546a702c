#!/bin/bash
# What goes wrong is said with the object's name, the reason, and what to do about it.
. "$(dirname "$0")/../lib.sh"

make_image 1M
touch plain
mkdir locked
make_image 1M locked/disk.img
"$nbdjournal" create locked/j --size 1M >/dev/null
chmod 700 locked
chmod 755 "$dir"

# says OBJECT WHY WAY COMMAND...: all three in one line of what the failing command says.
says() {
    local object=$1 why=$2 way=$3 text
    shift 3
    text=$(expect_failure "$@" </dev/null)
    grep -F -- "$object" <<<"$text" | grep -F -- "$why" | grep -qF -- "$way" ||
        fail "no '$object' with '$why' and '$way' in what $* says: $text"
}
serve() {
    nbdkit -f -U "$socket" "$plugin" "$@"
}

says no.img 'there is no image' 'truncate -s' serve file=no.img
says no-folder 'there is no folder' 'mkdir' serve dir=no-folder
says "$dir/no/j" 'No such file' 'check the path' serve file="$image" journal=no/j
says "$dir/plain/j" 'Not a directory' 'check the path' serve file="$image" journal=plain/j
says "$dir/no/c" 'No such file' 'check the path' serve file="$image" control=no/c
says "$image" 'is not a journal' 'check the path' "$nbdjournal" info "$image"
says no.journal 'No such file' 'check the path' "$nbdjournal" info no.journal
says no.journal 'No such file' 'check the path' "$nbdjournal" replay no.journal
says locked/j 'of this name already' 'choose another name' "$nbdjournal" create locked/j --size 1M
says no/j 'No such file' 'check the path' "$nbdjournal" create no/j --size 1M
says 5x 'is no size' '64M' "$nbdjournal" create new --size 5x
says journal-size=5x 'is no size' '64M' serve file="$image" journal-size=5x
says 'file= and dir=' 'exclude' 'say file=IMAGE' serve file="$image" dir="$dir"
says min-batch-time=9 'is above max-batch-time=5' 'raise the other' serve file="$image" min-batch-time=9 max-batch-time=5
says "'9'" 'it knows no image' 'nbdjournal info' "$nbdjournal" dump locked/j --image 9
says no.sock 'there is none' 'control=' "$nbdjournal" stats no.sock
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    as_nobody='setpriv --reuid=nobody --clear-groups'
    says "$dir/locked/j" 'Permission denied' 'run this as its owner' $as_nobody "$nbdjournal" info "$dir/locked/j"
    says 'file=' 'Permission denied' 'owner' $as_nobody nbdkit -f -U "$socket" "$plugin" file="$dir/locked/disk.img"
fi
# What can hardly be made to happen has its words all the same: whose memory, and then what.
! grep -rnE '(report|nbdkit)_error\("[^"%]*(out of|not enough) memory' "$JOURNAL_SOURCE"/{journal,plugin,tools/nbdjournal} ||
    fail 'these do not say for what'
