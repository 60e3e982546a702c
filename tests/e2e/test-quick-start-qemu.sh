#!/bin/bash
# The README's quick starts for qemu and libvirt, word by word: a guest finds the disk, and makes a file
# system on it, while the server is killed and started again.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
requires_vm

readme=$JOURNAL_SOURCE/README.md
make_image 64M
make_guest '
echo STEP: 1
sleep 1
/programs/mke2fs -q -t ext4 /dev/vda
mount -t ext4 -o discard /dev/vda /mnt
date >/mnt/file
sync
fstrim /mnt
umount /mnt
/programs/e2fsck -fn /dev/vda
'

# with_restart AWAIT: the server below the guest is killed.
with_restart() {
    eventually 120 eval "grep -q 'STEP: 1' console || ! kill -0 $guest"
    kill_server
    sleep 0.5
    start_server
    chmod 666 "$socket"
    $1
    stop_server
    e2fsck -fn "$image" >out 2>&1 || { cat out; fail 'the file system is damaged'; }
}

#--- qemu: what the README gives it, and what this guest needs beside a disk.
words=$(sed -n '/^    qemu-system-x86_64/,/^$/p' "$readme" | sed 's/\\$//' | tr -s ' \n' ' ')
expect_match "$words" 'qemu-system-x86_64 -m [0-9]+ -blockdev '
start_server
cd "$dir"
ln -s "$socket" disk.sock
: >console
# $words is a list of words.  It names the socket as disk.sock.
timeout 120 ${words/-m 2048/-m 256} -accel tcg -nodefaults -display none -serial file:console -no-reboot \
    -kernel "$kernel" -initrd initramfs -append 'console=ttyS0 quiet panic=-1' </dev/null &
guest=$!
on_exit "kill $guest 2>/dev/null"
with_restart await_guest

#--- libvirt: the disk as libvirt's own, and as an argument that it hands on
requires virt-qemu-run virt-xml-validate
sed -n "/^    <disk type='network'/,/^    <\/disk>/p" "$readme" >disk.xml
sed -n '/^      <qemu:commandline>/,/^      <\/qemu:commandline>/p' "$readme" >commandline.xml
for part in disk.xml commandline.xml; do
    [ "$(wc -l <$part)" -ge 5 ] || fail "the README has no $part"
    sed -i "s,/run/nbdjournal/web.sock,$socket," $part
done
xmlns=$(sed -n "s/.*\(xmlns:qemu='[^']*'\)>/\1/p" "$readme")

# domain DISK COMMANDLINE
domain() {
    cat <<END
<domain type='qemu' $xmlns>
  <name>guest</name>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>$kernel</kernel>
    <initrd>$dir/initramfs</initrd>
    <cmdline>console=ttyS0 quiet panic=-1</cmdline>
  </os>
  <features><acpi/></features>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>destroy</on_reboot>
  <devices>
    $1
    <serial type='file'><source path='$dir/console'/></serial>
    <memballoon model='none'/>
  </devices>
  $2
</domain>
END
}
# As a user without rights, since for root libvirt wants what its service sets up.
requires_root
chmod 755 "$dir"


run_domain() {
    virt-xml-validate domain.xml domain
    rm -rf "$journal" "$image"
    make_image 64M
    start_server
    chmod 666 "$socket"
    rm -rf root console
    mkdir -p root/etc
    echo 'stdio_handler = "file"' >root/etc/qemu.conf
    : >console
    chown -R 65534 root console
    HOME=$dir/root XDG_RUNTIME_DIR=$dir/root setpriv --reuid=65534 --regid=65534 --clear-groups \
        virt-qemu-run -r "$dir/root" domain.xml </dev/null >libvirt.log 2>&1 &
    guest=$!
    on_exit "kill $guest 2>/dev/null"
    eventually 120 eval "grep -q 'STEP: 1' console || ! kill -0 $guest" || true
    [ -s console ] || { cat libvirt.log; fail 'libvirt starts no guest'; }
}
# The guest turns itself off; who runs the domain does not end with it.
await_domain() {
    eventually 120 grep -q 'Power down' console || { cat console libvirt.log; fail 'the guest does not end'; }
    kill "$guest"
    wait "$guest" 2>/dev/null || true
    grep -q 'GUEST: done' console && ! grep -q 'GUEST: errors' console || { cat console; fail 'the guest saw errors'; }
}
domain "$(<disk.xml)" '' >domain.xml
run_domain
await_domain
stop_server
domain '' "$(<commandline.xml)" >domain.xml
run_domain
with_restart await_domain
