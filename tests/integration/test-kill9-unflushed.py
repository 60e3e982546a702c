#!/usr/bin/python3
"""P0: what was answered survives kill -9 of the server, also without a flush."""
import harness

server = harness.Server("32M")
disk = harness.Disk(server)
for life in range(8):
    disk.churn(60, "wwwwzZt")
    server.kill()
    server.start()
    disk.check(f"life {life}")
server.stop()
disk.check_file(server.image, when="image after a clean stop")
