#!/bin/bash
# The plugin shows its entry point and the flags of nbdkit -D, nothing else: nbdkit loads plugins where
# their names are seen by all others.
. "$(dirname "$0")/../lib.sh"

requires nm
symbols=$(nm -D --defined-only --format=just-symbols "$plugin")
expect_equal symbols plugin_init "$(grep -v '^journal_debug_' <<<"$symbols")"
