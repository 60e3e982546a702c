"""NBD by hand, for clients that do what no library does."""
import os
import socket
import struct

import harness

OPT_ABORT, OPT_INFO, OPT_GO = 2, 6, 7
CMD_READ, CMD_WRITE, CMD_DISC = 0, 1, 2
OPT_REPLY_ACK = 1


def option(number, data=b""):
    return b"IHAVEOPT" + struct.pack(">II", number, len(data)) + data


def export(name=b""):
    """Data of INFO and GO."""
    return struct.pack(">I", len(name)) + name + struct.pack(">H", 0)


def request(kind, offset=0, length=0, cookie=1, flags=0):
    return struct.pack(">IHHQQI", 0x25609513, flags, kind, cookie, offset, length)


class Client(socket.socket):
    def __init__(self, server):
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connect(server.socket)

    def receive(self, count):
        got = b""
        while len(got) < count:
            part = self.recv(count - len(got))
            harness.expect(part, "the server closed the connection")
            got += part
        return got

    def greet(self):
        harness.expect(self.receive(18)[:16] == b"NBDMAGICIHAVEOPT", "no server of NBD")
        self.sendall(struct.pack(">I", 3))

    def ask(self, number, data):
        """Until its last answer."""
        self.sendall(option(number, data))
        while True:
            _, _, kind, length = struct.unpack(">QIII", self.receive(20))
            self.receive(length)
            harness.expect(kind < 1 << 31, f"option {number} was refused: {kind:#x}")
            if kind == OPT_REPLY_ACK:
                return

    def go(self):
        self.greet()
        self.ask(OPT_GO, export())

    def reset(self):
        self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


def used(server):
    """Descriptors and threads of the server."""
    return len(os.listdir(f"/proc/{server.pid}/fd")), len(os.listdir(f"/proc/{server.pid}/task"))


def memory_kib(server):
    """What is its own."""
    with open(f"/proc/{server.pid}/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))
