"""An NBD server that breaks its promises on purpose, for tests of what nbdload notices.

    import liar
    server = liar.Liar("1M", wrong_read=100)
    ... server.uri ...
    server.power_cut_at("prefix", writes=500, pending=20)

It speaks fixed newstyle NBD with simple replies on a Unix socket, from threads of the test. Memory
is the disk: `disk` is what reads see, `durable` what survives a power cut, `pending` the writes
in between, in order.
"""
import os
import random
import select
import socket
import struct
import threading

import harness

NBD_FLAGS = 1 | 4 | 8 | 0x100  # has flags, flush, FUA, multi-conn
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
FUA = 1
SECTOR = 512


class Liar:
    """Faults, all off by default:

    wrong_read=N    every Nth read has a byte changed
    stale_read=N    every Nth read returns what was there before the newest write
    drop_write=N    every Nth write is answered and forgotten
    misplace=N      every Nth write goes 512 bytes further
    swallow_flush   flushes and FUA are answered and do nothing
    shuffle=N       answers come in groups of up to N, in a random order
    shrink          each connection is told half the size of the one before
    silent_after=N  no answer from the Nth request on
    hang_up_at=N    the Nth connection is closed in the handshake
    single          multi-conn is not advertised
    """

    def __init__(self, size, **faults):
        self.size = harness.bytes_of(size)
        self.faults = faults
        self.disk = bytearray(self.size)
        self.before = bytearray(self.size)
        self.durable = bytearray(self.size)
        self.pending = []
        self.cut = None
        self.log = []  # (command, flags, offset, length) of each request
        self.lock = threading.Lock()
        self.random = random.Random(7)
        self.reads = self.writes = self.requests = self.connections = 0
        self.path = harness.path("liar")
        self.uri = f"nbd+unix:///?socket={self.path}"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(128)
        self.clients = []
        threading.Thread(target=self._accept, daemon=True).start()

    def fault(self, name):
        return self.faults.get(name, 0)

    # ---- the crash ----

    def _disconnect(self):
        """No request of old connections has any effect afterwards."""
        for client in self.clients:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.clients = []

    def kill(self):
        """The server dies, and its memory lives on."""
        with self.lock:
            self._disconnect()

    def power_cut_at(self, kind, writes, pending):
        """Soon after so many writes, as soon as so many are not flushed."""
        self.cut = (kind, writes, pending)

    def _cut_if_due(self):
        if self.cut is not None and self.writes >= self.cut[1] and len(self.pending) >= self.cut[2]:
            kind, self.cut = self.cut[0], None
            self._power_cut(kind)
            return True
        return False

    def _alone(self):
        """Number of the first pending write of which no later one changes anything."""
        for number, (offset, data) in enumerate(self.pending):
            if all(o + len(d) <= offset or offset + len(data) <= o for o, d in self.pending[number + 1:]):
                return number
        raise AssertionError("they all overlap")

    def _power_cut(self, kind):
        """What is left of the unflushed writes.

        prefix   the first ones, as it may be
        none     nothing, as it may be
        hole     all but one
        torn     half of one of the first, and those before it
        flushed  nothing, and of what was flushed one sector is lost too
        """
        self._disconnect()
        self.before_cut = bytes(self.disk)
        self.disk[:] = self.durable
        writes = self.pending
        if kind == "prefix":
            writes = writes[:len(writes) // 2]
        elif kind == "none":
            writes = []
        elif kind == "hole":
            number = self._alone()
            writes = writes[:number] + writes[number + 1:]
        elif kind == "torn":
            number = next(n for n, w in enumerate(writes) if len(w[1]) > SECTOR)
            offset, data = writes[number]
            writes = writes[:number] + [(offset, data[:len(data) // 2])]
        elif kind == "flushed":
            writes = []
            written = [s for s in range(0, self.size, SECTOR) if any(self.durable[s:s + SECTOR])]
            place = self.random.choice(written)
            self.disk[place:place + SECTOR] = bytes(SECTOR)
        for offset, data in writes:
            self.disk[offset:offset + len(data)] = data
        self.durable[:] = self.disk
        self.pending = []

    # ---- the server ----

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # the end
                return
            self.connections += 1
            self.clients.append(client)
            threading.Thread(target=self._serve, args=(client, self.connections), daemon=True).start()

    def _serve(self, client, number):
        try:
            if self._handshake(client, number):
                self._transmission(client)
        except (OSError, EOFError):
            pass
        finally:
            client.close()

    @staticmethod
    def _receive(client, count):
        data = bytearray()
        while len(data) < count:
            piece = client.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _handshake(self, client, number):
        size = self.size >> (number - 1) if self.fault("shrink") else self.size
        flags = NBD_FLAGS & ~0x100 if self.fault("single") else NBD_FLAGS
        client.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
        self._receive(client, 4)
        if number == self.fault("hang_up_at"):
            return False
        while True:
            _, option, length = struct.unpack(">8sII", self._receive(client, 16))
            self._receive(client, length)

            def reply(kind, data=b""):
                client.sendall(struct.pack(">QIII", 0x3e889045565a9, option, kind, len(data)) + data)

            if option == 7:  # go
                reply(3, struct.pack(">HQH", 0, size, flags))
                reply(1)
                return True
            if option == 2:  # abort
                reply(1)
                return False
            reply(0x80000001)  # unsupported

    def _transmission(self, client):
        answers = []
        while True:
            header = self._receive(client, 28)
            _, flags, command, cookie, offset, length = struct.unpack(">IHHQQI", header)
            if command == DISCONNECT:
                return
            data = self._receive(client, length) if command == WRITE else b""
            with self.lock:
                if client not in self.clients:
                    return
                self.requests += 1
                self.log.append((command, flags, offset, length))
                if self.fault("silent_after") and self.requests >= self.fault("silent_after"):
                    continue
                answer = self._execute(flags, command, offset, length, data)
                if self._cut_if_due():
                    return
            answers.append(struct.pack(">IIQ", 0x67446698, 0, cookie) + answer)
            wait = 0.002 if self.fault("shuffle") else 0
            if not select.select([client], [], [], wait)[0] or len(answers) >= max(1, self.fault("shuffle")):
                self.random.shuffle(answers)
                client.sendall(b"".join(answers))
                answers = []

    def _is_turn(self, fault, count):
        return self.fault(fault) and count % self.fault(fault) == 0

    def _execute(self, flags, command, offset, length, data):
        if command == READ:
            self.reads += 1
            source = self.before if self._is_turn("stale_read", self.reads) else self.disk
            answer = bytearray(source[offset:offset + length])
            if self._is_turn("wrong_read", self.reads):
                answer[length // 2 + 100] ^= 0x10
            return bytes(answer)
        if command == WRITE:
            self.writes += 1
            if self._is_turn("misplace", self.writes):
                offset = min(offset + SECTOR, self.size - length)
            if not self._is_turn("drop_write", self.writes):
                self.before[offset:offset + length] = self.disk[offset:offset + length]
                self.disk[offset:offset + length] = data
                self.pending.append((offset, data))
        if (command == FLUSH or flags & FUA) and not self.fault("swallow_flush"):
            for place, old in self.pending:
                self.durable[place:place + len(old)] = old
            self.pending = []
        return b""
