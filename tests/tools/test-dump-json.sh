#!/bin/bash
# dump --json: one object a line, and the same lsns as were written.
. "$(dirname "$0")/tools.sh"

fill records=25
"$nbdjournal" dump --json "$journal" >dump.json
python3 - lsns dump.json <<'END'
import json, sys
wrote = [int(line) for line in open(sys.argv[1])]
records = [json.loads(line) for line in open(sys.argv[2])]
changes = [r for r in records if r["kind"] in ("write", "trim", "zero")]
assert [r["lsn"] for r in changes] == wrote, "lsns"
assert records[0]["kind"] == "epoch" and "cut_lsn" in records[0], "epoch"
assert [r["lsn"] for r in records] == sorted(r["lsn"] for r in records), "order"
assert all(r["durable_lsn"] < r["lsn"] for r in records), "durable"
assert any(r["fua"] for r in changes), "fua"
assert all(r["image"] == 1 and r["length"] > 0 for r in changes), "image"
END
expect_equal 'of an image' 25 "$("$nbdjournal" dump --json --image "$image" "$journal" | wc -l)"
expect_equal 'of an image' 25 "$("$nbdjournal" dump --json --image 1 "$journal" | wc -l)"
expect_exit 3 dump "$journal" --image 2
expect_match "$out" "no image '2'"
expect_exit 3 dump "$journal" --json --datalog
