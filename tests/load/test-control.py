#!/usr/bin/python3
"""With --control the result says how many flushes a commit answered, as the server counted them."""
import re
import time
import xml.dom.minidom

import harness
import nbdload

control = harness.path("control")
page = harness.path("report.html")
server = harness.Server("32M", parameters=[f"control={control}", "batch=jbd", "min-batch-time=2000"])

# Eight clients that flush together; every commit is held back for 2 ms at least.
result = nbdload.run("--json", "--clients", 8, "--count", 100, "--control", control, "--report", page, server.uri,
                     expect=nbdload.DONE).json()["server"]
# A flush whose write another client's commit has covered needs none.
harness.expect(600 <= result["flushes"] <= 800, result)
harness.expect(80 <= result["commits"] < 600, "no company:", result)
harness.expect(abs(result["flushes_per_commit"] - result["flushes"] / result["commits"]) < 1e-6, result)
harness.expect(0 < result["commit_p50"] <= result["commit_p99"] <= result["commit_p999"], result)
harness.expect(0 < result["waits"] <= result["commits"] + 1 and result["company"] > 0, result)
harness.expect(len(result["series"]) >= 1, result)
harness.expect(all(piece["flushes_per_commit"] > 0 and piece["commits_per_second"] > 0 for piece in result["series"]))

with open(page) as file:
    text = file.read()
harness.expect("Flushes per commit" in text and "%.2f flushes" % result["flushes_per_commit"] in text, "the words")

# A run that is long enough for a plot.
text = nbdload.run("--clients", 4, "--duration", "1s", "--control", control, "--report", page, server.uri,
                   expect=nbdload.DONE).stdout
harness.expect(re.search(r"^server: \d+ commits .*, \d+\.\d\d flushes each; commit p50 .* p99 .* held back", text, re.M), text)
with open(page) as file:
    plots = re.findall(r"<svg.*?</svg>", file.read(), re.S)
harness.expect(len(plots) == 4, len(plots))
points = xml.dom.minidom.parseString(plots[2]).getElementsByTagName("polyline")[0].getAttribute("points").split()
harness.expect(len(points) > 3, points)

# Nobody answers: said before the load begins.  The server dies: the load's end is what counts.
words = nbdload.run("--duration", "1h", "--control", harness.path("nowhere"), server.uri, expect=nbdload.USAGE).stderr
harness.expect("nowhere" in words and "control=" in words, words)
load = nbdload.start("--duration", "1h", "--control", control, server.uri)
time.sleep(0.5)
server.kill()
result = nbdload.finish(load)
harness.expect(result.status == nbdload.GONE, result)
harness.expect("control socket" in result.stderr, result)
