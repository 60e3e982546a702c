#!/usr/bin/python3
"""nbdjournal top on a real terminal: 80x24 and other sizes, keys, a server that is killed and started again."""
import os
import re
import subprocess
import threading
import time

import nbd

import control
import harness

harness.requires_program("tmux")
os.environ["TMUX_TMPDIR"] = harness.directory
os.environ.pop("TMUX", None)
os.environ["LC_ALL"] = "C.UTF-8"

os.mkdir(harness.path("disks"))
ODD = "\x1b[31mred\n.img"  # no control character reaches the terminal
for name in ("first.img", ODD):
    with open(harness.path("disks/" + name), "wb") as image:
        image.truncate(8 << 20)
server = control.server(None, start=False)
server.serves = "dir=" + harness.path("disks")
server.start()
stop = threading.Event()


def load():
    """Two flushes for each read, as long as the server lives."""
    try:
        handle = nbd.NBD()
        handle.set_export_name("first.img")
        handle.connect_unix(server.socket)
        number = 0
        while not stop.is_set():
            for _ in range(2):
                handle.pwrite(b"t" * 4096, number % 1000 * 4096)
                handle.flush()
                number += 1
            handle.pread(512, 0)
            time.sleep(0.002)
    except nbd.Error:
        pass


def begin_load():
    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    return thread


def tmux(*arguments):
    return subprocess.run(["tmux", "-f", "/dev/null", *arguments], check=True, capture_output=True, text=True).stdout


def screen():
    return tmux("capture-pane", "-p")


def shown(regex, why):
    """The screen, once it matches.  The bound only ends a hang."""
    for _ in range(600):
        text = screen()
        if re.search(regex, text, re.M):
            return text
        time.sleep(0.05)
    raise AssertionError(f"{why}: no '{regex}' in:\n{text}")


def begin(width, height):
    command = f"'{harness.NBDJOURNAL}' top --interval 0.2 {control.path()}; echo ended with $?; sleep 1000"
    tmux("new-session", "-d", "-x", str(width), "-y", str(height), command)


worker = begin_load()
handle = server.connect(ODD)
handle.pwrite(b"x" * 512, 0)
try:
    begin(80, 24)
    text = shown(r"^first\.img +[1-9][0-9]* +[1-9][0-9.k]* +[1-9][0-9.k]* .*MiB/s|^first\.img +[1-9][0-9.k]* +[1-9][0-9.k]* "
                 r"+[1-9][0-9.k]* .*KiB/s", "rates of a disk")
    lines = text.rstrip("\n").split("\n")
    harness.expect(len(lines) <= 24 and max(map(len, lines)) <= 80, "not in 80x24:\n", text)
    for regex in (r"^nbdjournal top +\S+ .*process %d" % server.pid, r"^journal +\S+/\.journal: active$",
                  r"^ring +\[#*\.+\] +\d+ %   .* of 3\.8 MiB", r"^waiting +.*, the oldest for ",
                  r"^commits +[1-9][0-9.k]* /s  p50 .*s  p99 .*s  p99\.9 .*s  [01]\.\d\d flushes each$",
                  r"^held back +.* flushes came along +\(rally\)$", r"^writeback +.*/s", r"^throttled +\d.* /s, 0 wait now",
                  r"^  test-control-to\[%d\] +[1-9]" % os.getpid(), r"^\?\[31mred\?\.img +0 ", r"^q quit"):
        harness.expect(re.search(regex, text, re.M), regex, "is not on the screen:\n", text)

    # The other columns: how long its flushes wait for their commits, and what waits for the image.
    tmux("send-keys", "v")
    text = shown(r"^DISK, CLIENT +commits/s +each +p50 +p99 +p99\.9 +held/s +came/s$", "commits")
    for name in (r"first\.img", r"  test-control-to\[%d\]" % os.getpid()):
        shown(r"^%s +[1-9][0-9.k]* +1\.\d\d(?: +\d[0-9.]* [mu]?s){3} +0 +0$" % name, "commits of a row")
    tmux("send-keys", "v")
    shown(r"^DISK, CLIENT +dirty +oldest +writeback +throttled/s +for each$", "waiting")
    shown(r"^first\.img +\d+\.?\d* [KM]iB +\d[0-9.]* [mu]?s +\d.*iB/s|^first\.img +\d.*iB +\d.* s +\d+ B/s +", "waiting of a disk")
    lines = screen().rstrip("\n").split("\n")
    harness.expect(len(lines) <= 24 and max(map(len, lines)) <= 80, "not in 80x24:\n", *lines)
    tmux("send-keys", "v")
    shown(r"reads/s", "the first columns again")

    # Keys.
    tmux("send-keys", "c")
    shown(r"\A(?![\s\S]*test-control-to\[)", "clients hidden")
    tmux("send-keys", "c")
    shown(r"^  test-control-to\[", "clients shown again")
    tmux("send-keys", "p")
    first = shown(r"PAUSED", "paused")
    time.sleep(1)
    harness.expect(screen() == first, "it goes on while it is paused")
    tmux("send-keys", "p")
    shown(r"\A(?![\s\S]*PAUSED)", "goes on")
    for _ in range(20):
        tmux("send-keys", "Down")
    shown(r"\A(?![\s\S]*^first\.img)[\s\S]*reads/s", "scrolled")
    for _ in range(20):
        tmux("send-keys", "Up")
    shown(r"^first\.img", "scrolled back")

    # Other sizes, the smallest too.
    for width, height in ((40, 12), (200, 50), (10, 3), (1, 1), (80, 24)):
        tmux("resize-window", "-x", str(width), "-y", str(height))
        time.sleep(0.5)
        harness.expect("ended with" not in screen(), f"it does not survive {width}x{height}:", screen())
    shown(r"^first\.img +[1-9].*errors|^first\.img +[1-9]", "after all sizes")

    # The server dies: what was seen stays, and it says why nothing comes; the next server is seen at once.
    server.kill()
    worker.join()
    shown(r"^control socket .* nobody listens", "a dead server")
    shown(r"^first\.img", "what was seen last")
    server.start()
    worker = begin_load()
    text = shown(r"process %d[\s\S]*^first\.img +[1-9]" % server.pid, "the next server")
    harness.expect("nobody listens" not in text, text)
    stop.set()
    worker.join()
    shown(r"^commits +0 /s", "no load, no rate")

    # A clean stop takes the socket away.
    server.stop()
    shown(r"^control socket .* there is none", "a stopped server")
    tmux("send-keys", "q")
    text = shown(r"^ended with 0$", "the end")
finally:
    subprocess.run(["tmux", "kill-server"], capture_output=True)

# Without a terminal, or with none that is known.
words = control.tool("top", control.path(), status=3)
harness.expect("terminal" in words and "stats" in words, words)
