#!/usr/bin/python3
"""PostgreSQL, while the server is killed and the power is cut: every commit that it has reported is there,
it recovers by itself, and its checksums are right.
"""
import glob
import os
import signal
import subprocess
import threading

import attached
import databases
import harness

WRITERS = ("a", "b", "c")
SETTINGS = ("listen_addresses=", "shared_buffers=16MB", "max_wal_size=64MB", "min_wal_size=32MB", "wal_init_zero=on",
            "checkpoint_timeout=30s", "max_connections=12", "jit=off", "fsync=on", "synchronous_commit=on", "dynamic_shared_memory_type=mmap")


USER = "nobody"


def programs():
    """Its folder: of this system, or one that scripts/install-deps has only unpacked (it is a service), at a
    place where another user comes to.
    """
    harness.requires_program("setpriv")
    # It refuses to run as root.
    os.chmod(harness.directory, 0o711)
    unpacked = os.path.join(harness.SOURCE, "build-deps")
    if glob.glob(unpacked + "/usr/lib/postgresql/*/bin/postgres"):
        for part in ("lib", "share"):
            os.makedirs(harness.path("usr/" + part))
            attached.run("cp", "-a", f"{unpacked}/usr/{part}/postgresql", harness.path("usr/" + part))
        attached.run("chmod", "-R", "a+rX", harness.path("usr"))
    found = glob.glob(harness.path("usr/lib/postgresql/*/bin/postgres")) or glob.glob("/usr/lib/postgresql/*/bin/postgres")
    if not found:
        harness.skip("PostgreSQL is not installed")
    return os.path.dirname(sorted(found)[-1])


class Postgresql:
    def __init__(self):
        self.bin = programs()
        self.sockets = harness.path("pg")
        os.mkdir(self.sockets)
        attached.run("chown", USER, self.sockets)
        self.server = None
        self.clients = []
        self.forget()

    def forget(self):
        self.ledger = databases.Ledger()

    def _command(self, program, *arguments):
        return ["setpriv", f"--reuid={USER}", "--clear-groups", os.path.join(self.bin, program), *arguments]

    def _psql(self, *arguments):
        return self._command("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.sockets,
                             "-d", "postgres", *arguments)

    def create(self, directory):
        data = os.path.join(directory, "data")
        os.mkdir(data)
        attached.run("chown", USER, data)
        attached.run(*self._command("initdb", "-D", data, "-A", "trust", "-k", "-E", "UTF8", "--locale=C"))
        self._start_server(directory)
        attached.run(*self._psql("-c", "CREATE TABLE row (writer text, number int, data text, "
                                       "PRIMARY KEY (writer, number))"))
        self._stop_server(signal.SIGINT)

    def _start_server(self, directory):
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        with open(harness.log, "ab") as out:
            self.server = subprocess.Popen(
                self._command("postgres", "-D", os.path.join(directory, "data"), "-k", self.sockets, *settings),
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/")
        attached.eventually("PostgreSQL is ready", lambda: self.server.poll() is not None or attached.try_to(
            *self._command("pg_isready", "-q", "-h", self.sockets)))
        harness.expect(self.server.poll() is None, "PostgreSQL ended while it started")

    def _stop_server(self, how):
        # setpriv has become it.
        self.server.send_signal(how)
        self.server.wait()
        self.server = None

    def _feed(self, psql, writer, number):
        """One row after the other, each when the one before it is committed."""
        try:
            while True:
                number += 1
                psql.stdin.write(f"INSERT INTO row VALUES ('{writer}', {number}, repeat('{number} ', "
                                 f"{number * 37 % 1500}));\n\\echo {number}\n")
                psql.stdin.flush()
                if psql.stdout.readline() != f"{number}\n":
                    return
                self.ledger.say(writer, number)
        except OSError:
            pass

    def start(self, directory):
        if self.server is None:
            self._start_server(directory)
        for writer in WRITERS:
            psql = subprocess.Popen(self._psql(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, cwd="/")
            thread = threading.Thread(target=self._feed, args=(psql, writer, self.ledger.said.get(writer, 0)))
            thread.start()
            self.clients.append((psql, thread))

    def broken(self):
        ended = [psql for psql, _ in self.clients if psql.poll() is not None]
        return ended[0].stderr.read() if ended else None

    def abandon(self):
        # Its disk is gone: at once, without a checkpoint.
        self._stop_server(signal.SIGQUIT)
        for psql, thread in self.clients:
            psql.terminate()
            psql.wait()
            thread.join()
        self.clients = []

    def check(self, directory):
        self._start_server(directory)
        rows = {writer: [int(number) for number in attached.run(*self._psql(
            "-c", f"SELECT number FROM row WHERE writer = '{writer}' ORDER BY number")).split()]
            for writer in WRITERS}
        self.ledger.check(rows)
        wrong = attached.run(*self._psql("-c", "SELECT count(*) FROM row WHERE data <> repeat(number || ' ', "
                                               "number * 37 % 1500)"))
        harness.expect(wrong.strip() == "0", wrong, "rows have other data")
        self._stop_server(signal.SIGINT)
        attached.run(*self._command("pg_checksums", "--check", "-D", os.path.join(directory, "data")))


databases.Loop(Postgresql(), disk_size=256 << 20).run(kills=6, cuts=5)
