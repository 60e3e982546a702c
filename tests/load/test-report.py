#!/usr/bin/python3
"""The report is one page without scripts or anything from elsewhere, and its plots are drawn."""
import re
import xml.dom.minidom

import harness
import nbdload

page = harness.path("report.html")

with nbdload.nbdkit("memory", "16M") as server:
    nbdload.run("--pattern", "mixed", "--clients", 4, "--duration", "1s", "--report", page, server.uri,
                expect=nbdload.DONE)
    with open(page) as file:
        text = file.read()
    # A directory that is not there is noticed at once, and not after the run.
    result = nbdload.run("--duration", "1h", "--report", harness.path("nowhere/report.html"), server.uri,
                         expect=nbdload.USAGE)
    harness.expect("nowhere/report.html: No such file" in result.stderr, result)

harness.expect(not re.search(r"<script|<link|<img|src=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", text), "not alone")
plots = re.findall(r"<svg.*?</svg>", text, re.S)
harness.expect(len(plots) == 3, len(plots))
for plot in plots:
    svg = xml.dom.minidom.parseString(plot)
    for line in svg.getElementsByTagName("polyline"):
        points = [tuple(map(float, p.split(","))) for p in line.getAttribute("points").split()]
        harness.expect(len(points) > 3, plot)
        harness.expect(all(90 <= x <= 751 and 29 <= y <= 276 for x, y in points), points)
for word in ("operation", "p99.9", "Throughput over time", "Latency by percentile", "99.9%"):
    harness.expect(word in text, word)

# What a server says is text, not markup.
result = nbdload.run("--report", page, "nbd+unix:///<b>&x?socket=/nothing/'\"<script>", expect=nbdload.USAGE)
with open(page) as file:
    text = file.read()
harness.expect("<script" not in text and "&lt;b&gt;&amp;x" in text, text)
