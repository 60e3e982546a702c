#!/usr/bin/python3
"""What `nbdjournal stats --prometheus` prints is accepted by promtool, and a real Prometheus scrapes it."""
import http.server
import json
import os
import signal
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import control
import harness

harness.requires_program("promtool")
harness.requires_program("prometheus")

ODD = 'b "quoted" \\ \nline.img'
os.mkdir(harness.path("disks"))
for name in ("a.img", ODD):
    with open(harness.path("disks/" + name), "wb") as image:
        image.truncate(8 << 20)
server = control.server(None, start=False)
server.serves = "dir=" + harness.path("disks")
server.start()
for name, writes in (("a.img", 7), (ODD, 3)):
    handle = server.connect(name)
    for number in range(writes):
        handle.pwrite(b"p" * 4096, number << 12)
        handle.flush()

text = control.tool("stats", "--prometheus", control.path())
check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
harness.expect(check.returncode == 0 and not check.stdout and not check.stderr, check.stdout, check.stderr)

# Every family has its two lines of comment, and is there once.
helps = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP")]
types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
harness.expect(helps == types and len(set(helps)) == len(helps), helps, types)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = control.tool("stats", "--prometheus", control.path()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=web.serve_forever, daemon=True).start()
free = http.server.HTTPServer(("127.0.0.1", 0), Handler)
port = free.server_port
free.server_close()

with open(harness.path("prometheus.yml"), "w") as config:
    config.write(f"""
scrape_configs:
  - job_name: journal
    scrape_interval: 1s
    static_configs:
      - targets: ["127.0.0.1:{web.server_port}"]
""")
with open(harness.path("prometheus.log"), "w") as out:
    prometheus = subprocess.Popen(
        ["prometheus", "--config.file", harness.path("prometheus.yml"), "--storage.tsdb.path", harness.path("tsdb"),
         "--web.listen-address", f"127.0.0.1:{port}"], stdout=out, stderr=out)


def query(expression):
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)["data"]["result"]


def value(expression):
    """Of one time series; None until it is there."""
    try:
        result = query(expression)
    except OSError:
        return None
    return float(result[0]["value"][1]) if len(result) == 1 else None


try:
    # The bound only ends a hang.
    for _ in range(600):
        if value('nbdkit_journal_disk_requests_total{disk="a.img",operation="write"}') == 7:
            break
        harness.expect(prometheus.poll() is None, open(harness.path("prometheus.log")).read()[-2000:])
        time.sleep(0.1)
    quoted = json.dumps(ODD)
    for expression, wanted in (
            ('nbdkit_journal_disk_requests_total{disk="a.img",operation="write"}', 7),
            (f"nbdkit_journal_disk_requests_total{{disk={quoted},operation=\"flush\"}}", 3),
            ("sum(nbdkit_journal_disk_request_bytes_total)", 40960),
            ("nbdkit_journal_commit_duration_seconds_count - nbdkit_journal_commits_total", 0),
            ('nbdkit_journal_commit_duration_seconds_bucket{le="+Inf"} - on(journal) nbdkit_journal_commits_total', 0),
            ("nbdkit_journal_flushes_answered_total", 10),
            ("nbdkit_journal_failed", 0),
            ("count(up == 1)", 1)):
        harness.expect(value(expression) == wanted, expression, "is", query(expression), "expected", wanted)
finally:
    prometheus.send_signal(signal.SIGTERM)
    prometheus.wait()
server.stop()
