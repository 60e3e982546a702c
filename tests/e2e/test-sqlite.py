#!/usr/bin/python3
"""SQLite, with a rollback journal and with a write-ahead log, while the server is killed and the power is cut:
every commit that it has reported is there, and its files are whole.
"""
import os
import sqlite3
import subprocess
import sys
import threading

import databases
import harness

WRITER = """
import os, sqlite3, sys
path, mode, writer = sys.argv[1:]
db = sqlite3.connect(path, timeout=60, isolation_level=None)
db.execute(f"PRAGMA journal_mode={mode}")
db.execute("PRAGMA synchronous=EXTRA")
number = db.execute("SELECT coalesce(max(number), 0) FROM row WHERE writer = ?", (writer,)).fetchone()[0]
while True:
    number += 1
    db.execute("INSERT INTO row VALUES (?, ?, ?)", (writer, number, os.urandom(number * 997 % 9000)))
    print(number, flush=True)
"""
MODES = ("delete", "wal")
WRITERS = ("a", "b")


class Sqlite:
    def __init__(self):
        self.writers = []
        self.forget()

    def forget(self):
        self.ledger = databases.Ledger()

    @staticmethod
    def _path(directory, mode):
        return os.path.join(directory, mode)

    def create(self, directory):
        for mode in MODES:
            db = sqlite3.connect(self._path(directory, mode))
            db.execute("CREATE TABLE row (writer TEXT, number INTEGER, data BLOB, PRIMARY KEY (writer, number))")
            db.commit()
            db.close()

    def _listen(self, process, name):
        for line in process.stdout:
            self.ledger.say(name, int(line))

    def start(self, directory):
        for mode in MODES:
            for writer in WRITERS:
                process = subprocess.Popen(
                    [sys.executable, "-c", WRITER, self._path(directory, mode), mode, writer],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                thread = threading.Thread(target=self._listen, args=(process, f"{mode} {writer}"))
                thread.start()
                self.writers.append((process, thread))

    def broken(self):
        ended = [process for process, _ in self.writers if process.poll() is not None]
        return ended[0].stderr.read() if ended else None

    def abandon(self):
        for process, thread in self.writers:
            process.kill()
            process.wait()
            thread.join()
            process.stdout.close()
            process.stderr.close()
        self.writers = []

    def check(self, directory):
        rows = {}
        for mode in MODES:
            db = sqlite3.connect(self._path(directory, mode), timeout=60)
            said = db.execute("PRAGMA integrity_check").fetchall()
            harness.expect(said == [("ok",)], mode, "is damaged:", said)
            for writer in WRITERS:
                rows[f"{mode} {writer}"] = [number for number, in db.execute(
                    "SELECT number FROM row WHERE writer = ? ORDER BY number", (writer,))]
            db.close()
        self.ledger.check(rows)


databases.Loop(Sqlite(), disk_size=32 << 20).run(kills=8, cuts=6)
