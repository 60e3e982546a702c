# For tests of nbdjournal, to be sourced first.  See ../lib.sh, of which it is a part.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

make_journal=$JOURNAL_BUILD/tests/support/make-journal
expected=$dir/expected.img      # what a replay must make of $image
export TZ=UTC

# fill [NAME=VALUE...]: $journal gets content for $image as from a server that was killed, and
# $expected the same changes.  $dir/lsns: one line a change.
fill() {
    [ -e "$image" ] || make_random_image 1M
    [ -e "$expected" ] || cp --sparse=always "$image" "$expected"
    "$make_journal" "$journal" "$image" "$expected" "$@" >"$dir/lsns"
}

# expect_exit STATUS ARGUMENT...: nbdjournal with these ends so; $out is what it said.
expect_exit() {
    local wanted=$1 status=0
    shift
    out=$("$nbdjournal" "$@" 2>&1) || status=$?
    [ $status = "$wanted" ] || fail "nbdjournal $*: exit $status, expected $wanted: $out"
}

# Contents, size, and what else is known of these files except the time of the last access.
digest() {
    local file
    for file in "$@"; do
        sha256sum "$file"
        stat -c '%n %s %a %u %i %Y %Z' "$file"
        getfattr --absolute-names -d -m - "$file" 2>/dev/null
    done
}

# A file of one image that waits for nothing: it bears no mark.
expect_unmarked() {
    ! getfattr --absolute-names -n user.nbdkit.journal "$1" >/dev/null 2>&1 ||
        fail "$1 is marked"
}

expect_marked() {
    getfattr --absolute-names -n user.nbdkit.journal "$1" >/dev/null 2>&1 ||
        fail "$1 is not marked"
}

expect_same() {
    cmp "$1" "$2" || fail "$1 and $2 differ"
}

requires_marks() {
    touch "$dir/mark"
    setfattr -n user.nbdkit.test -v x "$dir/mark" 2>/dev/null ||
        skip 'this file system has no extended attributes of users'
}

# Of what info and dump print: what is different in each run.
masked() {
    sed -E -e 's/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/UUID/g' \
        -e 's/20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}/TIME/g' \
        -e 's/(takes about |\()[0-9.]+ (ns|us|ms|s|min|h|days)/\1AGE/' -e "s,$dir/,,g"
}

# expect_golden NAME <OUTPUT: what golden/NAME has.
expect_golden() {
    diff -u "$JOURNAL_SOURCE/tests/tools/golden/$1" - || fail "not as in golden/$1"
}

# json FILTER <JSON: a Python expression of the object `o`.
json() {
    python3 -c 'import json, sys; o = json.load(sys.stdin); print('"$1"')'
}

# write_at FILE OFFSET <BYTES
write_at() {
    dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# killed_everywhere BEFORE AFTER ARGUMENT...: nbdjournal with these is killed before each of its
# system calls that changes anything, the first, the second, and so on: BEFORE and AFTER are
# commands for each round.  At least as many rounds as there are kinds of such calls.
killed_everywhere() {
    local before=$1 after=$2 call n status rounds=0
    shift 2
    requires strace
    for call in pwritev pwrite64 fdatasync fsync fallocate ftruncate fsetxattr fremovexattr unlink; do
        n=1
        while :; do
            $before
            status=0
            # Under strace there is no looking for leaks.
            ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -o trace -f -e trace="$call" -e inject="$call:signal=KILL:when=$n" \
                "$nbdjournal" "$@" >/dev/null 2>&1 || status=$?
            [ $status != 0 ] || break
            grep -q 'killed by SIGKILL' trace || fail "$call $n: exit $status: $(cat trace)"
            round="$call $n"
            $after
            n=$((n + 1))
            rounds=$((rounds + 1))
        done
    done
    echo "$rounds rounds"
    [ $rounds -ge 4 ] || fail "only $rounds rounds"
}

# The pair as it is now, for restore_pair.  The image keeps its inode, which is its identity.
save_pair() {
    cp "$journal" journal.saved
    cp "$image" image.saved
    mark=$(getfattr --absolute-names -n user.nbdkit.journal --only-values "$image" 2>/dev/null || true)
}

restore_pair() {
    cat journal.saved >"$journal"
    cat image.saved >"$image"
    [ -z "$mark" ] || setfattr -n user.nbdkit.journal -v "$mark" "$image"
}

# The file in shared memory that a server of $journal stages in.
staging() {
    echo "/dev/shm/nbdkit-journal-$("$nbdjournal" info --json "$journal" 2>/dev/null | json 'o["uuid"]')"
}

# churn N [SEED]: N random writes, trims and zeroes on the served disk; the same into $expected.
# No flush: only kill -9 is survived.
churn() {
    churn_count=$1 churn_seed=${2-1} churn_model=$expected nbd_script <<'END'
import os, random
count, path = int(os.environ["churn_count"]), os.environ["churn_model"]
rng = random.Random(int(os.environ["churn_seed"]))
size = h.get_size()
with open(path, "r+b") as model:
    for i in range(count):
        length = rng.randint(1, 30000)
        offset = rng.randrange(size - length)
        data = bytes(length)
        kind = rng.randrange(6)
        if kind == 0:
            h.trim(length, offset)
        elif kind == 1:
            h.zero(length, offset)
        else:
            data = rng.randbytes(length)
            h.pwrite(data, offset, nbd.CMD_FLAG_FUA if kind == 2 else 0)
        model.seek(offset)
        model.write(data)
END
}
