#!/bin/bash
# XFS and SQLite in a guest; server, guest, or both are killed at random.
. "$(dirname "$0")/../lib.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm.sh"
. "$JOURNAL_SOURCE/tests/e2e/vm_killed.sh"

vm_killed 320M xfs 'mkfs.xfs -q' 'xfs_repair -n'
