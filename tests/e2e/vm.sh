# A virtual machine with Debian's cloud kernel, a busybox as its whole system, and our disk as its
# virtio disk.  To be sourced after lib.sh:
#
#   make_guest 'COMMANDS'      what the guest runs, as root, with /dev/vda and /mnt; then it is off
#   run_guest                  boots it and waits for its end; its console is in the file "console"
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
    file=$(command -v "$1")
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
    _add_program mke2fs
    _add_program e2fsck
    cat >guest/init <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
. /load
sh -eu /work && echo GUEST: done || echo GUEST: failed
# Anything that the kernel found wrong with its disk.
dmesg | grep -E 'I/O error|EXT4-fs (error|warning)|hung task|BUG: ' && echo GUEST: errors
poweroff -f
END
    chmod +x guest/init
    echo "$1" >guest/work
    (cd guest && find . | cpio -o -H newc --quiet) >initramfs
    rm -rf guest
}

# boot_guest [DRIVE-OPTIONS]: in the background of the test.
boot_guest() {
    : >console
    qemu-system-x86_64 -accel tcg -m 256 -nodefaults -display none -serial file:console -no-reboot \
        -kernel "$kernel" -initrd initramfs -append 'console=ttyS0 quiet panic=-1' \
        -blockdev "driver=nbd,node-name=disk,server.type=unix,server.path=$socket,discard=unmap${1-}" \
        -device virtio-blk-pci,drive=disk,write-cache=on </dev/null &
    guest=$!
    on_exit "kill -9 $guest 2>/dev/null"
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
