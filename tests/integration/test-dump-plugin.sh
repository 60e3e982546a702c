#!/bin/bash
# nbdkit --dump-plugin tells what scripts ask for.
. "$(dirname "$0")/../lib.sh"

text=$(nbdkit --dump-plugin "$plugin")
for line in name=journal api_version=2 thread_model=parallel magic_config_key=file \
    has_can_fua=1 has_can_multi_conn=1 has_can_fast_zero=1 has_block_size=1 has_extents=1 has_cache=1 \
    has_list_exports=1 has_default_export=1 has_export_description=1 has_flush=1 has_trim=1 has_zero=1 has_cleanup=1 journal_data_modes=ordered,journal journal_bypass_default=65536; do
    grep -qxF "$line" <<<"$text" || fail "no line '$line' in: $text"
done
