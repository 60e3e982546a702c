"""nbdload in a test: started, ended, and what it told."""
import json
import os
import subprocess
import time

import harness

# nbd-server is only unpacked.
os.environ["PATH"] += ":" + os.path.join(harness.SOURCE, "build-deps/bin")

PROGRAM = os.path.join(harness.BUILD, "tools/nbdload/nbdload")

DONE, BROKEN, USAGE, ERRORS, GONE = range(5)  # its exit codes


class Result:
    def __init__(self, status, stdout, stderr):
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    def json(self):
        return json.loads(self.stdout)

    def __str__(self):
        return f"exit code {self.status}, it said:\n{self.stdout}{self.stderr}"


def start(*arguments):
    if not os.path.exists(PROGRAM):
        harness.skip("nbdload is not built: libnbd-dev is missing")
    return subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    stdout, stderr = process.communicate()
    return Result(process.returncode, stdout, stderr)


def run(*arguments, expect=None):
    result = finish(start(*arguments))
    if expect is not None:
        harness.expect(result.status == expect, f"expected exit code {expect}: {arguments}: {result}")
    return result


class nbdkit:
    """with nbdkit("memory", "64M") as server: ... server.uri"""

    count = 0

    def __init__(self, *arguments):
        nbdkit.count += 1
        self.arguments = arguments
        self.socket = harness.path(f"nbdkit{nbdkit.count}")
        self.uri = f"nbd+unix:///?socket={self.socket}"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def start(self):
        pid_file = self.socket + ".pid"
        for left_over in (self.socket, pid_file):
            if os.path.exists(left_over):
                os.unlink(left_over)
        with open(harness.log, "ab") as out:
            self.process = subprocess.Popen(["nbdkit", "-f", "-U", self.socket, "-P", pid_file, *self.arguments],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        # The bound only ends a hang.
        for _ in range(2400):
            if os.path.exists(pid_file) and os.path.getsize(pid_file):
                return
            harness.expect(self.process.poll() is None, "nbdkit did not start")
            time.sleep(0.025)
        raise AssertionError("nbdkit did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()
