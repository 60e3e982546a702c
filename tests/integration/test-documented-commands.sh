#!/bin/bash
# Every command in the README, docs/*.md and the manual pages' examples is run: here, word by word, in name
# spaces of its own where /run, /dev and the network are the test's; or by the test that the list below names.
. "$(dirname "$0")/../lib.sh"
requires_root
requires unshare chroot losetup nbdinfo nbdcopy nbdfuse nbd-trplay qemu-system-x86_64 busybox
[ -c /dev/fuse ] || skip 'no /dev/fuse'
losetup -f >/dev/null 2>&1 || skip 'no loop device'
unshare -mnp --fork true 2>/dev/null || skip 'no name spaces of our own here'

#--- what is documented
programs='nbd[a-z-]*|scripts/[a-z-]+|truncate|mkdir|mv|cp|rm|kill|while|losetup|mkfs\.[a-z0-9]+|mount|meson|ninja|apt-get|dpkg-[a-z]*|systemctl|qemu-[a-z0-9_-]*|virsh|bpftrace'
documented() {
    local page
    cd "$JOURNAL_SOURCE"
    # Indented blocks, and fenced ones.
    for page in README.md docs/*.md; do
        sed -E -n '/^```/,/^```$/p; s/^    ([^ ])/\1/p' "$page"
    done
    for page in docs/*.pod; do
        sed -E -n '1,/^=head1 DESCRIPTION/d; s/^ +//p' "$page"
    done
}
(documented) | grep -E "^($programs)( |$)" | sed 's/ *\\$//; s/  .*//' | sort -u >documented
[ "$(wc -l <documented)" -ge 50 ] || fail 'too few commands were found'

#--- who else runs them
cat >elsewhere <<'END'
tests/e2e/test-quick-start-nbd-client.sh	nbd-client -unix disk.sock /dev/nbd0 -C 4
tests/e2e/test-quick-start-nbd-client.sh	mkfs.ext4 /dev/nbd0
tests/e2e/test-quick-start-nbd-client.sh	mount /dev/nbd0 /mnt
tests/e2e/test-quick-start-nbd-client.sh	nbd-client -unix /run/disk.sock /dev/nbd0
tests/e2e/test-quick-start-qemu.sh	qemu-system-x86_64 -m 2048
tests/e2e/test-serve.sh	scripts/serve disk.img
tests/e2e/test-vm-systemd.sh	systemctl enable --now nbdjournal@web.service
tests/e2e/test-vm-systemd.sh	systemctl kill --signal=KILL nbdjournal@web.service
tests/e2e/test-vm-systemd.sh	nbdinfo 'nbd+unix:///?socket=/run/nbdjournal/web.sock'
tests/integration/test-install.sh	meson install -C build
tests/package/test-debian.sh	dpkg-buildpackage -b -uc
tests/integration/test-probes.py	bpftrace -p PID -e 'usdt:$plugindir/nbdkit-journal-plugin.so:nbdkit_journal:commit_end
tests/load/test-bench.py	scripts/bench --rounds 5 --seconds 5 --markdown table.md --svg plot.svg
scripts/test	scripts/test
scripts/test	scripts/install-deps --run
scripts/test	meson setup build
scripts/test	ninja -C build
scripts/install-deps	apt-get build-dep .
scripts/install-deps	apt-get install ../nbdkit-plugin-journal_*.deb ../nbdjournal_*.deb
END
while IFS=$'\t' read -r test command; do
    [ -e "$JOURNAL_SOURCE/$test" ] || fail "there is no $test"
    grep -qxF -- "$command" documented || fail "not documented any more: $command"
done <elsewhere
sed -n '/^```sh$/,/^```$/{/^```/!p}' "$JOURNAL_SOURCE/docs/operations.md" | sed 's/^/tests\/integration\/test-operations.sh\t/' >>elsewhere

#--- scenes: each has its own files, servers and network.  Documented commands begin with "+ ".
cat >scenes <<'END'
# The manual's first examples, and the README's.
+ truncate -s 10G disk.img
+ nbdkit journal disk.img
nbdinfo --size nbd://localhost | grep -qx 10737418240
stop
+ nbdkit journal file=disk.img
nbdinfo --size nbd://localhost | grep -qx 10737418240
stop
+ nbdkit journal disk.img recover=only-check
stop
+ nbdjournal check disk.img.journal disk.img
+ nbdjournal info disk.img.journal
+ nbdkit -P disk.pid -U $PWD/disk.sock journal file=disk.img
stop
+ nbdkit -f --filter=log journal file=disk.img data=journal logfile=requests.log

# Block devices, and a journal on another disk.
+ nbdkit journal file=/dev/vg/data journal=/fast/data.journal journal-size=4G
nbdinfo --size nbd://localhost | grep -qx 67108864
stop
rm /fast/data.journal
+ nbdjournal create /dev/nvme0n1p3
+ nbdkit journal file=/dev/vg/data journal=/dev/nvme0n1p3
nbdinfo --size nbd://localhost | grep -qx 67108864
stop
nbdjournal info /dev/nvme0n1p3 | grep -q /dev/

# A folder.
mkdir /var/lib/disks
truncate -s 8M /var/lib/disks/web.img
+ nbdkit journal dir=/var/lib/disks journal-size=4G
+ nbdinfo --list nbd://localhost
+ nbdcopy nbd://localhost/web.img backup.img
cmp backup.img /var/lib/disks/web.img

# On a socket: a file system without a kernel module, a virtual machine, a copy, its numbers.
truncate -s 64M disk.img
+ nbdkit -U /run/disk.sock journal disk.img
+ mkdir d
+ nbdfuse d/nbd --unix /run/disk.sock &
until [ -e d/nbd ]; do sleep 0.05; done
+ losetup -f --show d/nbd
printf 'info block\nquit\n' |
+ qemu-system-x86_64 -drive file=nbd:unix:/run/disk.sock,format=raw,if=virtio,discard=unmap ...
+ nbdcopy 'nbd+unix:///?socket=/run/disk.sock' backup.img
[ "$(stat -c %s backup.img)" = 67108864 ]
losetup -d $(losetup -n -O NAME -j d/nbd)
umount d
stop
+ nbdkit -U /run/disk.sock journal disk.img control=/run/disk.control
+ nbdjournal stats /run/disk.control
+ nbdjournal stats --prometheus /run/disk.control >disk.prom.new &&
+ mv disk.prom.new /var/lib/prometheus/node-exporter/disk.prom
grep -q nbdkit_journal_commits_total /var/lib/prometheus/node-exporter/disk.prom

# What was left by a server that was killed: looked at, replayed here, moved, copied.
truncate -s 64M disk.img
crash
+ nbdjournal dump disk.img.journal --datalog >log
cp disk.img copy.img
+ nbd-trplay -i copy.img -l log -b 4096
+ nbdjournal dump disk.img.journal --offset 0+4K
status=0
+ nbdjournal check disk.img.journal disk.img || status=$?
[ $status = 1 ]
+ nbdjournal replay disk.img.journal
cmp disk.img copy.img
crash
mv disk.img disk.img.journal /new/
+ nbdjournal replay /new/disk.img.journal /new/disk.img
mv /new/disk.img /new/disk.img.journal .
crash
cp disk.img disk.img.journal /new/
status=0
+ nbdjournal adopt /new/disk.img.journal /new/disk.img || status=$?
[ $status = 1 ]
+ nbdjournal adopt /new/disk.img.journal /new/disk.img --yes
ln -s /new/disk.img.journal JOURNAL
ln -s /new/disk.img IMAGE
+ nbdjournal adopt JOURNAL IMAGE --yes
+ nbdjournal forget JOURNAL IMAGE --yes

# nbdload.
truncate -s 64M disk.img
nbdkit -U /tmp/sock journal disk.img
+ nbdload --clients 8 'nbd+unix:///?socket=/tmp/sock'
stop
mkdir disks
for i in $(seq 32); do truncate -s 4M disks/disk$i; done
nbdkit journal dir=disks
+ nbdload $(printf 'nbd://localhost/disk%d ' $(seq 32))
stop
nbdkit journal disk.img
+ nbdload --rate 200 --poisson --report load.html nbd://localhost
[ -s load.html ]
+ nbdload --verify state --pattern mixed nbd://localhost
stop
nbdkit journal disk.img
+ nbdload verify state nbd://localhost
END

# Nothing is forgotten, nothing else is shown as documented.
{ cut -f 2 elsewhere; sed -n 's/^+ //p' scenes; } | sed 's/ || status=.*//; s/ &$//' | sort -u >run
sed 's/ &$//' documented | sort -u | comm -23 - run >forgotten
[ ! -s forgotten ] || { cat forgotten; fail 'no test runs these'; }
sed -n 's/^+ //p' scenes | sed 's/ || status=.*//; s/ &$//' | sort -u | comm -23 - <(sed 's/ &$//' documented | sort -u) >other
[ ! -s other ] || { cat other; fail 'these are documented nowhere'; }

#--- a root of its own: the machine's programs, and the test's /run, /dev, /tmp, /var/lib, /fast, /new
commands_by_name
mkdir -p root/{run,dev,tmp,var/lib/prometheus/node-exporter,fast,new,here,proc}
for top in /*; do
    case $top in
        /run | /dev | /tmp | /var | /proc | /lost+found) ;;
        *) if [ -L "$top" ]; then cp -P "$top" root/; elif [ -d "$top" ]; then mkdir "root$top"; fi ;;
    esac
done
truncate -s 64M data-file journal-file
data=$(losetup -f --show data-file)
on_exit "losetup -d $data"
device=$(losetup -f --show journal-file)
on_exit "losetup -d $device"
cat >prelude <<'END'
stop() {
    local pid
    for pid in $(pgrep -x nbdkit); do
        kill $pid
        while kill -0 $pid 2>/dev/null; do sleep 0.02; done
    done
    rm -f disk.sock /run/disk.sock /tmp/sock
}
# A write that was answered, and then no server.
crash() {
    nbdkit -U /run/crash.sock journal disk.img journal-size=4M
    qemu-io -f raw -c 'write -P 7 0 64k' -c flush 'nbd+unix:///?socket=/run/crash.sock' >/dev/null
    kill -9 $(pgrep -x nbdkit)
    while pgrep -x nbdkit >/dev/null; do sleep 0.02; done
    rm /run/crash.sock
}
qemu-system-x86_64() {
    # For the three dots.
    command qemu-system-x86_64 "${@:1:$#-1}" -nodefaults -display none -S -accel tcg -monitor stdio >monitor
    grep -q disk.sock monitor
}
# Seconds are enough.
nbdload() {
    if [ "$1" = verify ]; then command nbdload "$@"; else command nbdload --duration 0.5 "$@"; fi
}
nbdkit() {
    if [ "$1" = -f ]; then timeout -s TERM 1 nbdkit "$@" || [ $? = 124 ]; else command nbdkit "$@"; fi
}
END
cat >enter <<'END'
set -eu
cd "$1"
for top in $(ls root); do
    case $top in
        run | tmp) mount -t tmpfs none root/$top ;;
        proc) mount -t proc proc root/proc ;;
        dev) mount -t tmpfs none root/dev ;;
        var | fast | new | here) ;;
        *) [ -L "root/$top" ] || mount --rbind "/$top" "root/$top" ;;
    esac
done
for node in null zero full random urandom fuse loop-control; do cp -a /dev/$node root/dev/; done
for i in $(seq 0 63); do mknod root/dev/loop$i b 7 $i; done
mkdir -p root/dev/shm root/dev/vg "root$1"
mount -t tmpfs none root/dev/shm
mount --bind "$1" "root$1"
for path in "$JOURNAL_SOURCE" "$JOURNAL_BUILD"; do mkdir -p "root$path"; mount --bind "$path" "root$path"; done
ln -s "$2" root/dev/vg/data
ln -s "$3" root/dev/nvme0n1p3
ln -s /proc/self/fd root/dev/fd
busybox ip link set lo up
exec chroot root bash -eu -o pipefail -c 'cd /here; . "$0/prelude"; trap "echo failed: \$BASH_COMMAND" ERR; . "$0/scene"' "$1"
END

#--- and go
number=0
scene() {
    [ -s scene ] || return 0
    rm -rf root/here root/fast/* root/new/* root/var/lib/disks
    mkdir root/here
    grep -q '^+' scene || fail "a scene without a command: $(<scene)"
    sed -i 's/^+ //' scene
    unshare -mnp --fork --kill-child bash "$dir/enter" "$dir" "$data" "$device" </dev/null >said 2>&1 ||
        { cat scene; echo ---; tail -n 40 said; fail 'a documented command fails'; }
    number=$((number + 1))
    : >scene
}
: >scene
while IFS= read -r line; do
    case $line in
        '') scene ;;
        '#'*) ;;
        *) echo "$line" >>scene ;;
    esac
done <scenes
scene
[ $number -ge 6 ] || fail "only $number scenes"
