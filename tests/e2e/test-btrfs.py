#!/usr/bin/python3
"""btrfs, in use while the server is killed: btrfs check is content, every fsynced file is whole."""
from crash_loop import CrashLoop

CrashLoop(mkfs=["mkfs.btrfs", "-q"], check=["btrfs", "check", "--readonly"],
          mount_options=["-o", "discard=sync"], journal_size="8M").run(rounds=8)
