#!/usr/bin/python3
"""XFS, in use while the server is killed: xfs_repair is content, every fsynced file is whole."""
from crash_loop import CrashLoop

# nouuid: the file system of the life before, whose disk is gone, may still be mounted in a namespace that somebody
# else made a moment ago; XFS refuses to mount "another" one with its UUID meanwhile.
CrashLoop(mkfs=["mkfs.xfs", "-q"], check=["xfs_repair", "-n"],
          mount_options=["-o", "discard,nouuid"], journal_size="32M").run(rounds=8)
