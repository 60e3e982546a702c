#!/usr/bin/python3
"""The delay filter: requests that overtake each other above us are still right."""
import harness

harness.requires_filter("delay")
server = harness.Server("4M", filters=["delay"],
                        parameters=["wdelay=3ms", "delay-read=1ms", "delay-zero=2ms", "delay-trim=1ms"])
disk = harness.Disk(server, largest=32 << 10)
disk.survive(60)
server.stop()
disk.check_file(server.image, when="image after a clean stop")
