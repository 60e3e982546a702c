#!/usr/bin/python3
"""nbdjournal stats: when no server answers, it says which socket, why, and what to do, and ends with 3."""
import os
import socket
import subprocess
import sys
import tempfile
import threading

BUILD = os.environ["JOURNAL_BUILD"]
directory = tempfile.TemporaryDirectory(prefix="journal-test.", dir="/tmp")
os.chdir(directory.name)


def refused(path, *words, options=()):
    done = subprocess.run([os.path.join(BUILD, "tools/nbdjournal/nbdjournal"), "stats", *options, path],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, (path, done.returncode, done.stderr)
    assert done.stdout == "", done.stdout
    for word in (path, *words):
        assert word in done.stderr, (word, done.stderr)


refused("missing", "control=")
refused("x" * 200, "too long")
open("file", "w").close()
refused("file", "nobody listens")
dead = socket.socket(socket.AF_UNIX)
dead.bind("dead")
dead.close()
refused("dead", "killed", options=["--prometheus"])
# A server that is none of ours, and answers one thing to all.
number = 0


def answered(answer, *words):
    global number
    number += 1
    name = f"sock{number}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen()

    def serve():
        s, _ = listener.accept()
        s.recv(1000)
        try:
            s.sendall(answer)
        except (BrokenPipeError, ConnectionResetError):
            pass
        s.close()
    thread = threading.Thread(target=serve)
    thread.start()
    refused(name, *words, options=["--json"])
    thread.join()


answered(b"", "hung up")
answered(b"half an answer", "hung up")
answered(b"220 smtp.example.org\r\n", "no nbdkit journal")
answered(b"[1]\n", "no nbdkit journal")
answered(b"\n", "no nbdkit journal")
answered(b"{}\n", "protocol")
answered(b'{"protocol": 2}\n', "protocol")
answered(b'{"error": "not today"}\n', "not today")
answered(b"x" * (70 << 20), "emory")
sys.exit(0)
