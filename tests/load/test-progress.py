#!/usr/bin/python3
"""The progress line is there on a terminal, and nowhere else."""
import os
import pty
import subprocess

import harness
import nbdload


def said_to_terminal(*arguments):
    """What nbdload writes to standard error, when that is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([nbdload.PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 4096):
            said += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    harness.expect(process.wait() == 0, said)
    return said.decode()


with nbdload.nbdkit("memory", "1M") as server:
    arguments = ("--clients", "2", "--duration", "3s", server.uri)
    piped = nbdload.run(*arguments, expect=nbdload.DONE)
    harness.expect(piped.stderr == "", piped)
    said = said_to_terminal(*arguments)
    harness.expect("running" in said and "operations/s" in said and "p99" in said, said)
    # One line that is overwritten, and gone at the end.
    harness.expect("\n" not in said and said.endswith("\r\033[K"), said)
    harness.expect(said_to_terminal("--quiet", *arguments) == "")
