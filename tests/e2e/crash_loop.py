"""A file system on our disk, in use, while the server is killed again and again.

After each kill -9 the server is started anew, the file system mounted so that it replays its own log,
checked by its own checker, and compared with the ledger.  At the end, after a clean stop, the image
alone is all that.

    JOURNAL_TEST_SEED=N repeats the random choices of a run, JOURNAL_TEST_ROUNDS=N does more of it.
"""
import os
import random
import subprocess
import time

import attached
import harness
import ledger

WORKERS = 3


class CrashLoop:
    def __init__(self, mkfs, check, mount_options, journal_size):
        """mkfs and check: commands, the device comes last."""
        self.mkfs, self.check_command, self.mount_options = mkfs, check, mount_options
        for program in (mkfs[0], check[0]):
            harness.requires_program(program)
        attached.requires()
        self.seed = int(os.environ.get("JOURNAL_TEST_SEED") or random.randrange(1 << 32))
        print(f"JOURNAL_TEST_SEED={self.seed}", flush=True)
        self.random = random.Random(self.seed)
        # So small a journal that it wraps, and that data is brought home in every life.
        self.server = harness.Server("512M", parameters=[f"journal-size={journal_size}"])
        self.disk = attached.Disk(self.server)
        self.ledger = ledger.Ledger(self.random.random())

    def check(self):
        """Attached and not mounted: the file system is well, and everything promised is there."""
        # The mount replays the file system's log, which its checker wants done.
        self.disk.mount(*self.mount_options)
        self.disk.umount()
        attached.run(*self.check_command, self.disk.device)
        self.disk.mount(*self.mount_options)
        self.ledger.check(self.disk.mnt)

    def crash(self):
        self.server.kill()
        self.disk.drop()
        self.server.start()
        self.disk.attach()

    def crash_while_mounting(self):
        mount = subprocess.Popen(["mount", *self.mount_options, self.disk.device, self.disk.mnt],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.random.uniform(0, 0.2))
        self.server.kill()
        mount.wait()
        self.disk.drop()
        self.server.start()
        self.disk.attach()

    def work_and_crash(self):
        workers = [ledger.Worker(self.ledger, self.disk.mnt, number) for number in range(WORKERS)]
        enough = self.ledger.promises + self.random.choice((3, 30, 100))
        for worker in workers:
            worker.start()
        attached.eventually("work is done", lambda: self.ledger.promises >= enough or any(w.failure for w in workers))
        if self.random.random() < 0.5:
            # Much to discard at once.
            attached.try_to("fstrim", self.disk.mnt)
        time.sleep(self.random.uniform(0, 0.5))
        for worker in workers:
            harness.expect(worker.failure is None, "the disk failed without a crash:", worker.failure)
        self.ledger.close()
        self.server.kill()
        # The last ones notice only now.
        self.disk.process.kill()
        for worker in workers:
            worker.join()
            harness.expect(isinstance(worker.failure, OSError), worker.failure)
        self.disk.drop()
        self.server.start()
        self.disk.attach()

    def run(self, rounds):
        rounds = int(os.environ.get("JOURNAL_TEST_ROUNDS") or rounds)
        self.disk.attach()
        attached.run(*self.mkfs, self.disk.device)
        for _ in range(rounds):
            self.check()
            self.work_and_crash()
            if self.random.random() < 0.3:
                self.crash_while_mounting()
        self.check()
        self.disk.umount()
        self.disk.detach()
        self.server.stop()
        print(f"{rounds} rounds, {self.ledger.promises} promises")
        self.check_image_alone()

    def check_image_alone(self):
        """P5: no server, no journal, and the image is the disk."""
        harness.expect(os.listxattr(self.server.image) == [], "the image is still marked")
        os.unlink(self.server.journal)
        attached.run("mount", "-o", "loop", self.server.image, self.disk.mnt)
        self.ledger.check(self.disk.mnt)
        self.disk.umount()
        device = attached.run("losetup", "-f", "--show", self.server.image).strip()
        try:
            attached.run(*self.check_command, device)
        finally:
            attached.run("losetup", "-d", device)
