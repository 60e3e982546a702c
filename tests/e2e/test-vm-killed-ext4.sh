#!/bin/bash
# ext4 and SQLite in a guest; server, guest, or both are killed at random.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm_killed.sh"

vm_killed 96M ext4 'mke2fs -q -t ext4' 'e2fsck -fn'
