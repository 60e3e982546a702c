#!/bin/bash
# The units under a real systemd, process 1 of a virtual machine, with the words of the manual: enabled and
# started, reached through the socket alone, killed below a client (all that was answered is there: nobody
# removed it from /dev/shm), stopped with work waiting (drained, in time), and refused once, not for ever.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_vm
[ -x /lib/systemd/systemd ] || fail 'systemd is missing: run scripts/install-deps'
nbdload=$JOURNAL_BUILD/tools/nbdload/nbdload
plugins=$(nbdkit --dump-config | sed -n 's/^plugindir=//p')

# systemd without what it starts on a real machine: its targets are enough.
units=guest/lib/systemd/system
mkdir -p $units guest/{etc,programs,sbin,usr/sbin,usr/bin,var/lib} "guest$plugins"
cp /lib/systemd/system/*.target /lib/systemd/system/-.* $units/ 2>/dev/null || true
cp "$JOURNAL_BUILD/systemd/nbdjournal@.service" "$JOURNAL_SOURCE/systemd/nbdjournal@.socket" $units/
cat >$units/work.service <<'END'
[Service]
ExecStart=/run-work
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
END
mkdir -p guest/etc/systemd guest/etc/nbdjournal
cat >guest/etc/systemd/system.conf <<'END'
[Manager]
LogTarget=kmsg
LogLevel=notice
END
# In place of systemd's own log.
mkdir -p guest/etc/systemd/system/nbdjournal@.service.d
printf '[Service]\nStandardOutput=append:/run/servers\nStandardError=inherit\n' \
    >guest/etc/systemd/system/nbdjournal@.service.d/log.conf
echo 'root:x:0:0::/:/bin/sh' >guest/etc/passwd
echo 'root:x:0:' >guest/etc/group
cp "$JOURNAL_SOURCE/systemd/nbdjournal.sysusers" guest/etc/nbdjournal.sysusers
cp "$plugin" "guest$plugins/"
ln -s /programs/nbdkit "guest$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$JOURNAL_BUILD/systemd/nbdjournal@.service")"
# The manual's words, both of them.
manual=$JOURNAL_SOURCE/docs/nbdkit-journal-plugin.1.pod
enable=$(sed -n 's/^ \(systemctl enable .*\)/\1/p' "$manual")
kill=$(sed -n 's/^ \(systemctl kill .*\)/\1/p' "$manual")
expect_match "$enable" 'nbdjournal@web.service$'
expect_match "$kill" 'nbdjournal@web.service$'

guest_programs="/lib/systemd/systemd systemctl systemd-sysusers nbdkit nbdinfo $plugin $nbdload $nbdjournal"
guest_init='/programs/systemd --unit=work.service'
make_guest "
# What systemd and the servers have said.
trap '[ \$? = 0 ] || { dmesg | grep systemd | tail -n 20; cat /run/servers; }' EXIT
PATH=/bin:/programs
uri='nbd+unix:///?socket=/run/nbdjournal/web.sock'
unit=nbdjournal@web.service
show() {
    systemctl show -p \$1 --value \${2-\$unit}
}
expect() {
    [ \"\$2\" = \"\$3\" ] || { echo \"\$1 is '\$2', not '\$3'\"; echo ended with \$?; exit 1; }
}
expect 'process 1' \"\$(cat /proc/1/comm)\" systemd
systemd-sysusers /etc/nbdjournal.sysusers
/programs/mke2fs -q -t ext4 /dev/vda
mount -t ext4 /dev/vda /var/lib
mkdir /var/lib/nbdjournal
truncate -s 32M /var/lib/nbdjournal/web.img
chown -R nbdjournal:nbdjournal /var/lib/nbdjournal
echo 'PARAMETERS=\"file=/var/lib/nbdjournal/web.img journal-size=4M control=/run/nbdjournal/web/control\"' >/etc/nbdjournal/web.conf
$enable
expect state \"\$(show ActiveState)\" active
load() {
    nbdload --quiet --count 60 --pattern mixed --read-percent 10 --clients 2 --seed \$1 --verify /ledger \$uri >/said 2>&1 || { cat /said; echo ended with \$?; exit 1; }
}
verify() {
    nbdload verify /ledger \$uri >/said 2>&1 || { echo ended with \$?; cat /said; exit 1; }
}
load 1
first=\$(show MainPID)
expect 'who it is' \"\$(stat -c %U /proc/\$first)\" nbdjournal
nbdjournal stats /run/nbdjournal/web/control >/said
ls /dev/shm/nbdkit-journal-* >/said
echo STEP: started

# Killed: started again by systemd; whoever connects waits; nothing that was answered is missing.
$kill
verify
[ \"\$(show MainPID)\" != \$first ]
expect restarts \"\$(show NRestarts)\" 1
load 2
kill -9 \$(show MainPID)
verify
expect restarts \"\$(show NRestarts)\" 2
echo STEP: killed

# Stopped with work waiting: drained, in time.  Then the socket is there and starts it.
load 3
systemctl stop \$unit
expect result \"\$(show Result)\" success
nbdjournal info --json /var/lib/nbdjournal/web.img.journal >/said
grep '\"state\"' /said | grep -q clean || { cat /said; echo ended with \$?; exit 1; }
expect socket \"\$(show ActiveState nbdjournal@web.socket)\" active
expect state \"\$(show ActiveState)\" inactive
verify
expect state \"\$(show ActiveState)\" active
echo STEP: stopped

# What can't start stays down, and says why.
echo 'PARAMETERS=\"file=/var/lib/nbdjournal/none.img\"' >/etc/nbdjournal/none.conf
systemctl start nbdjournal@none.socket
systemctl start nbdjournal@none.service || true
for i in 1 2 3 4 5 6 7 8 9; do
    [ \"\$(show ActiveState nbdjournal@none.service)\" != failed ] || break
    sleep 0.3
done
expect state \"\$(show ActiveState nbdjournal@none.service)\" failed
expect restarts \"\$(show NRestarts nbdjournal@none.service)\" 0
grep 'there is no image' /run/servers >/said
echo STEP: refused
"
truncate -s 64M state
# systemd and all of these programs lie in its memory.
_boot -m 512 -drive file=state,format=raw,if=none,id=a -device virtio-blk-pci,drive=a
await_guest
expect_equal 'what was done' 'started killed stopped refused' "$(said STEP | tr '\n' ' ' | sed 's/ $//')"
