#!/usr/bin/python3
"""The fua filter in each of its modes (without one: no FUA): flush and FUA stay what they are."""
import harness

harness.requires_filter("fua")
for mode in None, "emulate", "native", "force", "pass":
    server = harness.Server("4M", filters=["fua"], name=f"{mode}",
                            parameters=[f"fuamode={mode}"] if mode else [])
    handle = server.connect()
    harness.expect(handle.can_fua() == (mode is not None), mode, "can_fua", handle.can_fua())
    disk = harness.Disk(server, seed=f"{mode}")
    disk.churn(100, "wwwwzZtrf" + ("F" if mode else ""))
    server.kill()
    server.start()
    disk.check(f"{mode}: after kill -9")
    server.stop()
    disk.check_file(server.image, when=f"{mode}: image after a clean stop")
