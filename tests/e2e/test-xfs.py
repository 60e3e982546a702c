#!/usr/bin/python3
"""XFS, in use while the server is killed: xfs_repair is content, every fsynced file is whole."""
from crash_loop import CrashLoop

CrashLoop(mkfs=["mkfs.xfs", "-q"], check=["xfs_repair", "-n"],
          mount_options=["-o", "discard"], journal_size="32M").run(rounds=8)
