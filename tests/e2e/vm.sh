# A virtual machine with Debian's cloud kernel, a busybox as its whole system, and our disk as its
# virtio disk.  To be sourced after lib.sh:
#
#   make_guest 'COMMANDS'      what the guest runs, as root, with /dev/vda and /mnt; then it is off
#   run_guest                  boots it and waits for its end; its console is in the file "console"
#
# Before make_guest, guest_modules and guest_programs may name more of the kernel's modules and of the
# programs; programs are in the guest's /programs.  What lies in the folder "guest" already comes along,
# and guest_init is what runs in the end as process 1, and has to run /run-work.  Or the server is reached
# by the guest's own kernel:
#
#   requires_nbd_guest         adds what it takes: nbd.ko, nbd-client, nbd-keep, a network
#   start_network_server [PARAMETER...]   on a port of 127.0.0.1, always the same
#   boot_network_guest         in it the server is $SERVER (address and port, two words)
#
# No KVM is needed: the processor is emulated, a boot takes some seconds.

requires_vm() {
    requires qemu-system-x86_64
    local program
    for program in busybox cpio modinfo mke2fs e2fsck; do
        command -v "$program" >/dev/null || fail "$program is missing: run scripts/install-deps"
    done
    kernel=$(find "$JOURNAL_SOURCE/build-deps/boot" -name 'vmlinuz-*' | sort -V | tail -n 1)
    [ -n "$kernel" ] || fail 'there is no kernel in build-deps/: run scripts/install-deps'
    modules=$JOURNAL_SOURCE/build-deps/lib/modules/${kernel##*/vmlinuz-}
}

guest_modules=
guest_programs=
guest_init=/run-work

requires_nbd_guest() {
    local keep=$JOURNAL_BUILD/tests/e2e/nbd-keep
    requires_vm
    [ -x "$keep" ] || fail 'nbd-keep is not built: run scripts/install-deps'
    guest_modules="$guest_modules virtio_net nbd"
    guest_programs="$guest_programs nbd-client $keep"
}

# The module after what it needs.  One that the kernel has built in is no file.
_add_module() {
    local file needed
    file=$(find "$modules" -name "$1.ko" | head -n 1)
    [ -n "$file" ] && [ ! -e "guest/modules/$1.ko" ] || return 0
    for needed in $(modinfo -F depends "$file" | tr ',' ' '); do
        _add_module "$needed"
    done
    cp "$file" guest/modules/
    echo "insmod /modules/$1.ko" >>guest/load
}

_add_program() {
    local file library
    file=$(command -v "$1") || fail "$1 is missing: run scripts/install-deps"
    cp "$file" guest/programs/
    for library in $(ldd "$file" | grep -o '/[^ ]*'); do
        mkdir -p "guest${library%/*}"
        cp -L "$library" "guest$library"
    done
}

make_guest() {
    mkdir -p guest/{bin,programs,modules,proc,sys,dev,mnt}
    cp "$(command -v busybox)" guest/bin/busybox
    : >guest/load
    _add_module virtio_pci
    _add_module virtio_blk
    local name
    for name in $guest_modules; do
        _add_module "$name"
    done
    for name in mke2fs e2fsck $guest_programs; do
        _add_program "$name"
    done
    cat >guest/init <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
. /load
ifconfig eth0 10.0.2.15 2>/dev/null
exec $guest_init
END
    cat >guest/run-work <<END
#!/bin/busybox sh
export PATH=/bin
if ifconfig eth0 >/dev/null 2>&1; then
    export SERVER="10.0.2.2 \$(sed -n 's/.*server_port=\([0-9]*\).*/\1/p' /proc/cmdline)"
fi
sh -eu /work </dev/null && echo GUEST: done || echo GUEST: failed
# Anything that the kernel found wrong with its disk.
dmesg | grep -E 'I/O error|Buffer I/O|EXT4-fs (error|warning)|hung task|BUG: ' && echo GUEST: errors
poweroff -f
END
    chmod +x guest/init guest/run-work
    echo "$1" >guest/work
    (cd guest && find . | cpio -o -H newc --quiet) >initramfs
    rm -rf guest
}

_boot() {
    : >console
    qemu-system-x86_64 -accel tcg -m 256 -nodefaults -display none -serial file:console -no-reboot \
        -kernel "$kernel" -initrd initramfs \
        -append "console=ttyS0 quiet panic=-1 server_port=${server_port-}" "$@" </dev/null &
    guest=$!
    on_exit "kill -9 $guest 2>/dev/null"
}

# boot_guest [DRIVE-OPTIONS]: in the background of the test.
boot_guest() {
    _boot -device virtio-blk-pci,drive=disk,write-cache=on \
        -blockdev "driver=nbd,node-name=disk,server.type=unix,server.path=$socket,discard=unmap${1-}"
}

boot_network_guest() {
    _boot -netdev user,id=net -device virtio-net-pci,netdev=net,romfile=
}

# The guest reaches 127.0.0.1 as 10.0.2.2.
start_network_server() {
    local parameters=("$@")
    [ $# -gt 0 ] || parameters=("file=$image" journal-size=4M)
    : "${server_port:=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')}"
    rm -f "$dir/pid"
    nbdkit -f -P "$dir/pid" -i 127.0.0.1 -p "$server_port" "$plugin" "${parameters[@]}" </dev/null >>"$log" 2>&1 &
    server=$!
    servers+=("$server")
    eventually 60 _answers || fail 'the server did not start'
    [ -s "$dir/pid" ] || fail 'the server did not start'
}

# The guest turned itself off after all its work, and nothing was wrong.
await_guest() {
    wait "$guest" || { cat console; fail 'qemu failed'; }
    grep -q 'GUEST: done' console || { cat console; fail 'the guest did not do its work'; }
    ! grep -q 'GUEST: errors' console || { cat console; fail 'the guest saw errors'; }
}

run_guest() {
    boot_guest "$@"
    await_guest
}

# said WORD: what the guest's lines "WORD: ..." say, without the carriage returns of a console.
said() {
    sed -n "s/^.*$1: //p" console | tr -d '\r'
}
