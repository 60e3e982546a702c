"""A disk whose state after a power cut must be one that it had."""
import itertools

import nbd

import harness


class Disk(harness.Disk):
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
