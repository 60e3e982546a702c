#!/bin/bash
# dump --offset, --since, --until: the story of a block, and of a span of time.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=60 align=512 max=32768
"$nbdjournal" dump --json "$journal" >all.json
"$nbdjournal" dump --json "$journal" --offset 400K+64K >some.json
"$nbdjournal" dump --json "$journal" --offset 409600 >one.json
python3 - all.json some.json one.json <<'END2'
import json, sys
every, some, one = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
def touching(offset, length):
    return [r for r in every if r["length"] > 0 and r["image"] == 1
            and r["offset"] < offset + length and r["offset"] + r["length"] > offset]
assert some == touching(400 << 10, 64 << 10) and 1 < len(some) < 40, len(some)
assert one == touching(409600, 1), one
END2

# A range that ends where a record begins does not touch it.
offset=$(sed -n 's/.*"kind":"write".*"offset":\([0-9]*\),.*/\1/p' all.json | head -n 1)
"$nbdjournal" dump --json "$journal" --offset $((offset - 512))+512 >before.json
python3 - all.json before.json "$offset" <<'END2'
import json, sys
every, before = ([json.loads(line) for line in open(path)] for path in sys.argv[1:3])
offset = int(sys.argv[3])
assert before == [r for r in every if r["length"] > 0 and r["image"] == 1
                  and r["offset"] < offset and r["offset"] + r["length"] > offset - 512], before
END2

# What a read returns now: of a block that was written, of one that was zeroed, of one that was not touched.
# newest KIND: lsn and offset of the first record that is of this kind and newest everywhere.
newest() {
    python3 - all.json "$1" <<'END2'
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
newest = {}
for r in records:
    for block in range(r["offset"] // 512, (r["offset"] + r["length"]) // 512):
        newest[block] = r
print(*next((r["lsn"], block * 512) for block, r in newest.items() if r["kind"] == sys.argv[2]))
END2
}
for kind in write zero; do
    read -r lsn offset < <(newest $kind)
    expect_exit 0 dump "$journal" --offset "$offset"
    expect_match "$out" "# the newest is lsn $lsn: a read of what it covers returns $([ $kind = write ] && echo what || echo zeroes)"
done
free=$(python3 - all.json <<'END2'
import json, sys
taken = set()
for line in open(sys.argv[1]):
    r = json.loads(line)
    taken.update(range(r["offset"] // 512, (r["offset"] + r["length"] + 511) // 512))
print(next(i for i in range(2048) if i not in taken) * 512)
END2
)
expect_exit 0 dump "$journal" --offset "$free"
expect_match "$out" '# no change of it is in the journal'
expect_equal 'lines' 2 "$(wc -l <<<"$out")"

# Time: the records are of the first second of 2023-11-14 22:13:20.
all=$("$nbdjournal" dump "$journal" | wc -l)
for span in '--since @1700000000' '--until @1700000000' '--since 2023-11-14' '--since 2023-11-14T22:13:20'; do
    expect_equal "lines for $span" "$all" "$("$nbdjournal" dump "$journal" $span | wc -l)"
done
expect_equal 'lines until then' "$all" "$("$nbdjournal" dump "$journal" --until '2023-11-14 22:13:20' | wc -l)"
expect_equal 'lines until then' "$all" "$("$nbdjournal" dump "$journal" --until '00:00' | wc -l)"
for span in '--until @1699999999' '--since @1700000001' '--until 2023-11-14' '--since 2023-11-14T22:13:21' '--since 00:00'; do
    expect_equal "lines for $span" 1 "$("$nbdjournal" dump "$journal" $span | wc -l)"
done
for wrong in '--since yesterday' '--since 2023-13-01' '--until @x' '--offset x' '--offset 1+' '--offset 1+0' '--offset -1' \
    '--offset 9E+9E'; do
    expect_exit 3 dump "$journal" $wrong
    expect_match "$out" 'must be OFFSET|is no time'
done

# Once it is home there is nothing to tell.
expect_exit 0 replay "$journal"
expect_exit 0 dump "$journal" --offset 409600
expect_match "$out" '# no change of it is in the journal'
