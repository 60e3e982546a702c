#!/usr/bin/python3
"""Several connections are one disk: a read sees what another one wrote, a flush covers what was answered
on another one."""
import nbd

import harness

server = harness.Server("8M")
a, b = server.connect(), server.connect()
harness.expect(a.can_multi_conn(), "multi-conn is not offered")
a.pwrite(b"1" * 4096, 0)
harness.expect(b.pread(4096, 0) == b"1" * 4096, "b does not see what a wrote")
b.flush()
b.trim(1024, 512)
harness.expect(a.pread(4096, 0) == b"1" * 512 + bytes(1024) + b"1" * 2560, "a does not see b's trim")
a.pwrite(b"2" * 100, 600, nbd.CMD_FLAG_FUA)
server.kill()
server.start()
a, b = server.connect(), server.connect()
want = b"1" * 512 + bytes(88) + b"2" * 100 + bytes(836) + b"1" * 2560
harness.expect(a.pread(4096, 0) == want, "after kill -9")
harness.expect(b.pread(4096, 0) == want, "after kill -9, other connection")
server.stop()
