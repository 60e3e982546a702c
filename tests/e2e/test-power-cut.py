#!/usr/bin/python3
"""The power is cut again and again, also while the journal is made and while it is recovered: the disk is
as it was after some prefix of the requests, with all that was flushed.
"""
import itertools
import os
import random

import nbd

import harness
import power

seed = int(os.environ.get("JOURNAL_TEST_SEED") or random.randrange(1 << 32))
rounds = int(os.environ.get("JOURNAL_TEST_ROUNDS") or 10)
print(f"JOURNAL_TEST_SEED={seed}", flush=True)
rng = random.Random(seed)


class RecordedDisk(harness.Disk):
    """Knows every state that the disk may be in after a cut: self.base, and after each of self.since."""

    def __init__(self, server, **how):
        super().__init__(server, **how)
        self.base, self.since = bytearray(self.model), []
        self.atomic = self._handle().get_block_size(nbd.SIZE_MAXIMUM)

    def _now_durable(self, count):
        for offset, data in self.since[:count]:
            self.base[offset:offset + len(data)] = data
        del self.since[:count]

    def write(self, offset, data, flags=0):
        # A larger one is done in parts, in order.
        for at in range(0, len(data), self.atomic):
            self.since.append((offset + at, data[at:at + self.atomic]))
        super().write(offset, data, flags)
        if flags:
            self._now_durable(len(self.since))

    def zero(self, offset, length, flags=0):
        self.since.append((offset, bytes(length)))
        super().zero(offset, length, flags)

    def trim(self, offset, length, flags=0):
        self.since.append((offset, bytes(length)))
        super().trim(offset, length, flags)

    def flush(self):
        super().flush()
        self._now_durable(len(self.since))

    def check_prefix(self):
        found = self._read_all()
        for done in itertools.count():
            if found == self.base:
                break
            harness.expect(self.since, "the disk is in no state that it ever had after its last flush")
            self._now_durable(1)
        self.since = []
        self.model = bytearray(found)
        return done


def forever():
    while True:
        model.churn(20)


def start_and_cut():
    timer = machine.cut_after(rng.uniform(0, 0.15))
    machine.until_cut(server.start)
    timer.join()
    machine.boot_again()


# So small a journal that it wraps, and is brought home all the time.
machine = power.Machine(rng.random(), parameters=["journal-size=1M", "commit-interval=0.2"])
server = machine.server
for number in range(rounds):
    if number % 4 == 0:
        machine.new_image("8M")
        start_and_cut()
        server.start()
        model = RecordedDisk(server, seed=rng.random())
        harness.expect(not any(model.model), "a new disk is not empty")
    timer = machine.cut_after(rng.choice((rng.uniform(0, 0.3), rng.uniform(0, 2))))
    machine.until_cut(forever)
    timer.join()
    machine.boot_again()
    if rng.random() < 0.3:
        start_and_cut()
    # Clean or needs replay, never damaged.
    machine.run(harness.NBDJOURNAL, "check", server.journal, server.image, status=(0, 1))
    server.start()
    kept = model.check_prefix()
    print(f"cut {number + 1}: {kept} more than were flushed")
    model.churn(30)
    model.check("second life")
server.stop()
model.check_file(server.image)
machine.shut_down()
