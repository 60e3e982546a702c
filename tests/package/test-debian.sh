#!/bin/bash
# The Debian packages: built with what debian/control asks for and nothing else, content with lintian,
# installed in a clean root, used, upgraded over a journal in which data waits and below a server at
# work, and removed.  Nothing of them is left then, and no disk is touched.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/package/root.sh"
requires_roots

#--- build
make_root root-build
mkdir root-build/src
tar -c -C "$JOURNAL_SOURCE" --exclude='./build*' --exclude=./.git . | tar -x -C root-build/src --no-same-owner
version=$(dpkg-parsechangelog -l root-build/src/debian/changelog -S Version)
expect_equal 'version in debian/changelog and meson.build' \
    "$(sed -n "s/^  version: '\(.*\)',/\1/p" "$JOURNAL_SOURCE/meson.build")" "$version"
in_root root-build sh -c "cd /src && DEB_BUILD_OPTIONS='nocheck parallel=$(nproc)' dpkg-buildpackage -us -uc" \
    >build.log 2>&1 || { tail -n 60 build.log; fail 'the packages are not built'; }
mkdir new
mv root-build/*.deb root-build/*.dsc root-build/*.tar.* root-build/*.buildinfo root-build/*.changes new/
rm -rf root-build
lintian --allow-root --fail-on error,warning --tag-display-limit 0 new/*.changes

#--- install
make_root root-install
everything() {
    (cd root-install && find . -path ./proc -prune -o -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o \
        -path ./disks -prune -o -path ./debs -prune -o -print | sort)
}
run() {
    in_root root-install "$@"
}
everything >before
mkdir -p root-install/debs root-install/disks
# The same packages in the next version: what dpkg does with them is the same.
next=$version+next
for deb in new/nbdkit-plugin-journal_*.deb new/nbdjournal_*.deb; do
    cp "$deb" "root-install/debs/this-$(basename "$deb")"
    rm -rf raw
    dpkg-deb -R "$deb" raw
    sed -i "s/^Version: .*/Version: $next/" raw/DEBIAN/control
    dpkg-deb -b raw "root-install/debs/next-$(basename "$deb")" >/dev/null
done
install_version() {
    run sh -c "dpkg -i $1" >dpkg.log 2>&1 || { cat dpkg.log; fail "dpkg does not install $1"; }
    expect_equal 'installed version' "$2" "$(run dpkg-query -W -f '${Version}' nbdkit-plugin-journal)"
    expect_equal 'installed version' "$2" "$(run dpkg-query -W -f '${Version}' nbdjournal)"
}
install_version '/debs/this-*' "$version"

#--- use
[ -s root-install/usr/share/bash-completion/completions/nbdjournal ] || fail "there is no completion"
for page in man1/nbdkit-journal-plugin.1 man1/nbdjournal.1 man1/nbdload.1 man5/nbdjournal-format.5; do
    [ -s "root-install/usr/share/man/$page.gz" ] || fail "there is no $page"
done
expect_match "$(run nbdkit --dump-plugin journal)" 'name=journal'
expect_equal 'version of nbdjournal' "nbdjournal $version" "$(run nbdjournal --version)"

disk=root-install/disks/disk.img
truncate -s 64M "$disk"
uri='nbd+unix:///?socket=/disks/sock'
start() {
    rm -f root-install/disks/{sock,pid}
    exec_in_root root-install nbdkit -f -P /disks/pid -U /disks/sock journal file=/disks/disk.img </dev/null >>"$log" 2>&1 &
    server=$!
    servers+=("$server")
    eventually 60 eval '[ -s root-install/disks/pid ] || ! kill -0 "$server"'
    [ -s root-install/disks/pid ] || fail 'the server did not start'
}
load() {
    run nbdload --count 200 --pattern mixed --read-percent 10 --clients 2 --seed "$1" --verify /disks/ledger "$uri" \
        >load.log 2>&1 || { cat load.log; fail 'the load failed'; }
}
verify() {
    run nbdload verify /disks/ledger "$uri" >load.log 2>&1 || { cat load.log; fail 'data is lost'; }
}
check() {
    local status=0
    run nbdjournal check /disks/disk.img.journal /disks/disk.img >check.log 2>&1 || status=$?
    [ $status = "$1" ] || { cat check.log; fail "nbdjournal check ended with $status, not $1"; }
}
start
load 1
kill_server
check 1

#--- upgrade over a journal in which data waits
install_version '/debs/next-*' "$next"
check 1
start
verify
load 2
stop_server
check 0

#--- upgrade, back and forth, below a server at work
start
load 3
install_version '/debs/this-*' "$version"
kill -0 "$server" || fail 'the upgrade ended the server'
load 4
install_version '/debs/next-*' "$next"
verify
kill_server
check 1

#--- remove
sha256sum "$disk" "$disk.journal" >sums
getfattr -d "$disk" >mark
expect_match "$(<mark)" nbdkit.journal
run dpkg --purge nbdkit-plugin-journal nbdjournal >dpkg.log 2>&1 || { cat dpkg.log; fail 'dpkg does not remove them'; }
everything >after
diff before after || fail 'that was left behind (>), or taken away (<)'
sha256sum --quiet -c sums
getfattr -d "$disk" | cmp - mark
install_version '/debs/this-*' "$version"
start
verify
stop_server
check 0
