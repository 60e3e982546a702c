#!/bin/bash
# meson install puts the plugin where nbdkit finds it by name, the tool on the path and the manual beside it.
. "$(dirname "$0")/../lib.sh"

requires_root
requires meson unshare
meson install -C "$JOURNAL_BUILD" --no-rebuild --quiet --destdir "$dir/root"
plugindir=$(nbdkit --dump-config | sed -n 's/^plugindir=//p')
[ -f "$dir/root$plugindir/nbdkit-journal-plugin.so" ] || fail "no plugin in $plugindir"
find "$dir/root" -type f -name nbdjournal -perm -111 | grep -q . || fail 'no nbdjournal'
find "$dir/root" -type f -name 'nbdkit-journal-plugin.1*' | grep -q . || fail 'no manual page'

unshare -m true 2>/dev/null || skip 'no mount name space of our own here'

# By name: our plugin laid over the directory, for this one process.
make_image 1M
cp -r "$plugindir" plugins
cp "$dir/root$plugindir/nbdkit-journal-plugin.so" plugins/
export plugindir image
size=$(unshare -m bash -c 'mount --bind plugins "$plugindir" && nbdkit -U - journal "$image" --run "nbdinfo --size \$uri"')
expect_equal size $((1 << 20)) "$size"
