"""A database on a file system on our disk, in use, while the server is killed or the power is cut.

Writers commit rows 1, 2, 3 and so on, each its own, and say so when the database has said so.  After each
crash the database recovers by itself, finds nothing wrong with its files, and has for each writer all
rows up to what was said, or one more that was on its way, and no hole.

    JOURNAL_TEST_SEED=N repeats the random choices of a run, JOURNAL_TEST_ROUNDS=N does more of it.
"""
import os
import random
import time

import attached
import harness
import power


class Machine(power.FileMachine):
    """With a disk that has room for a database."""

    def __init__(self, seed, disk_size, parameters):
        power.Machine.__init__(self, seed, disk_size, 32 << 20, 4096, parameters)


class Ledger:
    """What was said to be committed, by writer."""

    def __init__(self):
        self.said = {}
        self.promised = {}

    def say(self, writer, number):
        self.said[writer] = number

    def close(self):
        """What was said until now must be there; what is said by a disk that is gone need not."""
        self.promised = dict(self.said)

    def check(self, rows):
        """rows: {writer: [numbers, in order]}"""
        for writer, least in self.promised.items():
            found = rows.get(writer, [])
            harness.expect(found == list(range(1, len(found) + 1)), writer, "has a hole in its rows:", found)
            harness.expect(len(found) >= least, writer, f"committed {least} rows, {len(found)} are there")
            harness.expect(len(found) <= self.said[writer] + 1, writer,
                           f"began {self.said[writer] + 1} rows, {len(found)} are there")
        self.said = {writer: len(found) for writer, found in rows.items()}

    def total(self):
        return sum(self.said.values())


class Loop:
    """database: start(directory), ledger, broken() or None, abandon(), check(directory), stop()"""

    def __init__(self, database, disk_size):
        attached.requires()
        self.database, self.disk_size = database, disk_size
        self.seed = int(os.environ.get("JOURNAL_TEST_SEED") or random.randrange(1 << 32))
        print(f"JOURNAL_TEST_SEED={self.seed}", flush=True)
        self.random = random.Random(self.seed)

    def _work(self):
        ledger = self.database.ledger
        enough = ledger.total() + self.random.choice((1, 10, 60))
        attached.eventually("rows are committed", lambda: ledger.total() >= enough or self.database.broken())
        time.sleep(self.random.uniform(0, 0.5))
        harness.expect(not self.database.broken(), "the database failed without a crash:", self.database.broken())
        ledger.close()

    def _begin(self, disk):
        disk.attach()
        attached.run("mkfs.ext4", "-q", "-E", "nodiscard", disk.device)
        disk.mount()
        self.database.create(disk.mnt)

    def _again(self, disk):
        disk.attach()
        disk.mount()
        self.database.check(disk.mnt)

    def kills(self, rounds):
        server = harness.Server(self.disk_size, parameters=["journal-size=8M"], name="killed")
        disk = attached.Disk(server, "killed")
        self._begin(disk)
        for _ in range(rounds):
            self.database.start(disk.mnt)
            self._work()
            server.kill()
            disk.process.kill()
            self.database.abandon()
            disk.drop()
            server.start()
            self._again(disk)
        disk.umount()
        disk.detach()
        server.stop()
        print(f"{rounds} kills, {self.database.ledger.total()} rows", flush=True)

    def cuts(self, rounds):
        machine = Machine(self.random.random(), 2 * self.disk_size, ["journal-size=8M"])
        machine.new_image(str(self.disk_size))
        machine.server.start()
        disk = attached.Disk(machine.server, "cut")
        self._begin(disk)
        for _ in range(rounds):
            self.database.start(disk.mnt)
            self._work()
            machine.cut()
            disk.process.kill()
            self.database.abandon()
            disk.drop()
            machine.boot_again()
            machine.server.start()
            self._again(disk)
        disk.umount()
        disk.detach()
        machine.server.stop()
        print(f"{rounds} power cuts, {self.database.ledger.total()} rows", flush=True)

    def run(self, kills, cuts):
        rounds = int(os.environ.get("JOURNAL_TEST_ROUNDS") or 0)
        self.kills(rounds or kills)
        self.database.forget()
        self.cuts(rounds or cuts)
