#!/usr/bin/python3
"""The rate filter: requests that are held back above us are still right."""
import harness

harness.requires_filter("rate")
server = harness.Server("2M", filters=["rate"], parameters=["rate=400M"])
disk = harness.Disk(server, largest=32 << 10)
disk.survive(100)
server.stop()
disk.check_file(server.image, when="image after a clean stop")
