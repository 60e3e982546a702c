# A guest with its disk on us flushes files and commits to a database, and says so; the server is killed, or
# the guest, or both, at random.  Then the file system is whole, and all that the guest had said is there.
# To be sourced after vm.sh:
#
#   vm_killed SIZE MODULE 'MAKE' 'CHECK'    commands for /dev/vda; MODULE is the file system's name

vm_killed() {
    local size=$1 type=$2 make=$3 check=$4 kind n
    local seed=${JOURNAL_TEST_SEED-$RANDOM}
    echo "JOURNAL_TEST_SEED=$seed"
    RANDOM=$seed
    requires_vm
    guest_modules=$type
    guest_programs="sqlite3 ${make%% *} ${check%% *}"
    make_image "$size"
    # The journal is replayed by a mount, then the check must find nothing.
    make_guest "
if [ \"\$(dd if=/dev/vda bs=1k count=4 2>/dev/null | tr -d '\\0' | wc -c)\" = 0 ]; then
    echo MADE:
    /programs/$make /dev/vda
else
    mount -t $type /dev/vda /mnt
    umount /mnt
    /programs/$check /dev/vda
fi
mount -t $type /dev/vda /mnt
cd /mnt
for file in file*; do
    [ ! -e \$file ] || echo \"SUM: \$(sha256sum \$file)\"
done
# With FULL a commit can be undone by a crash: the removal of its rollback journal is not flushed.
db() {
    /programs/sqlite3 -bail /mnt/db \"pragma synchronous = extra; \$1\"
}
echo \"INTEGRITY: \$(db 'pragma integrity_check')\"
db 'create table if not exists t (n integer primary key, what blob)'
# Each row has its predecessor.
echo \"ROWS: \$(db 'select count(*) from t') \$(db 'select coalesce(max(n), 0) from t')\"
n=\$(db 'select coalesce(max(n), 0) from t')
for i in \$(seq 25); do
    n=\$((n + 1))
    dd if=/dev/urandom of=/mnt/other\$((n % 4)) bs=64k count=\$((n % 9 + 1)) 2>/dev/null &
    file=file-\$(cat /proc/sys/kernel/random/uuid)
    dd if=/dev/urandom of=/mnt/\$file bs=3k count=\$((n % 7 + 1)) conv=fsync 2>/dev/null
    echo \"LEDGER: \$(sha256sum </mnt/\$file | cut -d' ' -f1)  \$file\"
    db \"insert into t values (\$n, randomblob(\$((n * 377 % 9000))))\"
    echo \"COMMITTED: \$n\"
    wait \$!
done
cd /
umount /mnt
/programs/$check /dev/vda
"
    start_server
    : >ledger
    committed=0
    # Each of them, and in the end one that nobody disturbs.
    for ((n = ${JOURNAL_TEST_ROUNDS-1}; n > 0; n--)); do
        for kind in $(printf '%s\n' guest server both | shuf --random-source=<(yes "$seed$n")); do
            _round "$kind"
        done
    done
    _round nobody
    stop_server
}

_said_steps() {
    [ "$(grep -c 'COMMITTED:' console)" -ge "$1" ] || ! kill -0 "$guest"
}

_round() {
    local steps=$((RANDOM % 20 + 1)) count max
    boot_guest ,reconnect-delay=60
    if [ "$1" != nobody ]; then
        eventually 240 _said_steps $steps || { cat console; fail 'the guest stands still'; }
        sleep 0.$((RANDOM % 5))
        case $1 in
            server) kill_server; sleep 0.2 ;;
            guest) kill -9 "$guest" ;;
            both) kill_server; kill -9 "$guest" ;;
        esac
        [ "$1" = guest ] || start_server
    fi
    case $1 in
        server | nobody) await_guest ;;
        *) wait "$guest" 2>/dev/null || true ;;
    esac
    echo "$1 killed after $steps steps: $(said ROWS) rows found, $(said COMMITTED | wc -l) more"
    # A line that the kill cut in two says nothing.
    sed -i '$ { /\r$/!d }' console

    # What this boot found against what all before had said; then what this one said.
    ! grep -v -x -F -f <(said SUM) ledger || { cat console; fail 'these files are lost, or other than they were'; }
    expect_equal integrity ok "$(said INTEGRITY)"
    read -r count max < <(said ROWS)
    expect_equal 'rows without a gap' "$max" "$count"
    [ "$count" -ge "$committed" ] || fail "$committed rows were committed, $count are there"
    said LEDGER >>ledger
    committed=$(said COMMITTED | tail -n 1)
    committed=${committed:-$count}
}
