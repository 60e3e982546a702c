#!/usr/bin/python3
"""A short life of the server under valgrind: no invalid access, no leak that grows with use."""
import harness

harness.requires_program("valgrind")
server = harness.Server("8M", parameters=["journal-size=4M"], start=False)
server.wrapper = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
                  "--errors-for-leak-kinds=definite", f"--log-file={harness.path('valgrind')}"]


def report():
    with open(harness.path("valgrind")) as lines:
        return lines.read()


server.start()
disk = harness.Disk(server, largest=64 << 10)
disk.churn(200)
disk.check("served")
try:
    server.stop()
finally:
    print(report())
harness.expect(report() == "", "valgrind has something to say")
disk.check_file(server.image, when="image after a clean stop")

# Also with something to recover.
server.wrapper = []
server.start()
disk.churn(100)
server.kill()
server.wrapper = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
                  "--errors-for-leak-kinds=definite", f"--log-file={harness.path('valgrind')}"]
server.start()
disk.check("recovered")
try:
    server.stop()
finally:
    print(report())
harness.expect(report() == "", "valgrind has something to say")
