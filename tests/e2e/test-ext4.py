#!/usr/bin/python3
"""ext4, in use while the server is killed: e2fsck is content, every fsynced file is whole."""
from crash_loop import CrashLoop

CrashLoop(mkfs=["mkfs.ext4", "-q", "-E", "nodiscard"], check=["e2fsck", "-fn"],
          mount_options=["-o", "discard"], journal_size="8M").run(rounds=8)
