#!/usr/bin/python3
"""The dashboard in docs/ asks for nothing that `nbdjournal stats --prometheus` does not print, and shows all of it."""
import json
import os
import re
import subprocess

import control
import harness

with open(os.path.join(harness.SOURCE, "docs/grafana-dashboard.json")) as file:
    dashboard = json.load(file)
server = control.server("8M")
server.connect().pwrite(b"g" * 4096, 0)
text = control.tool("stats", "--prometheus", control.path())
printed = {re.match(r"(\w+)", line).group(1) for line in text.splitlines() if not line.startswith("#")}
labels = set(re.findall(r'(\w+)="', text))

expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
expressions += [a["expr"] for a in dashboard["annotations"]["list"]]
expressions += [v["query"]["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
asked = {name for expression in expressions for name in re.findall(r"nbdkit_journal_\w+", expression)}
harness.expect(len(expressions) > 20 and asked, "no questions")
harness.expect(asked <= printed, "not printed:", asked - printed)
# Whatever is printed can be seen, but for what another one says already.
unseen = {re.sub(r"_(bucket|sum|count)$", "", name) for name in printed - asked}
harness.expect(unseen <= {"nbdkit_journal_" + name for name in (
    "commit_duration_seconds", "throttled_total", "bypassed_writes_total", "image_barriers_total", "throttled_now", "checkpoints_total", "disk_connections",
    "disk_fua_total")}, "not shown:", unseen)
for expression in expressions:
    for label in re.findall(r"[{,](\w+)=~", expression) + re.findall(r"by \(([\w, ]+)\)", expression):
        harness.expect(set(re.split(", ", label)) <= labels, label, "in", expression)

# Panels do not lie on each other, and have different numbers.
cells = set()
for panel in dashboard["panels"]:
    at = panel["gridPos"]
    mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
    harness.expect(at["x"] + at["w"] <= 24 and not cells & mine, "overlap:", panel["title"])
    cells |= mine
harness.expect(len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]), "ids")

# Prometheus understands each of them, with what Grafana puts in.
harness.requires_program("promtool")
rules = {"groups": [{"name": "dashboard", "rules": [
    {"record": f"panel:{number}", "expr": e.replace("$__rate_interval", "1m").replace("$journal", ".*").replace("$disk", ".*")}
    for number, e in enumerate(expressions) if not e.startswith("label_values")]}]}
with open(harness.path("rules.yml"), "w") as out:
    json.dump(rules, out)  # JSON is YAML
check = subprocess.run(["promtool", "check", "rules", harness.path("rules.yml")], capture_output=True, text=True)
harness.expect(check.returncode == 0, check.stdout, check.stderr)
