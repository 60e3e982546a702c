#!/bin/bash
# docs/operations.md: its commands do what it says, from the first to the last, and the messages that it
# explains are those that the programs have.
. "$(dirname "$0")/../lib.sh"
requires nbdcopy nbdinfo

guide=$JOURNAL_SOURCE/docs/operations.md

commands_by_name

sed -n '/^```sh$/,/^```$/{/^```/!p}' "$guide" >commands
[ "$(wc -l <commands)" -ge 20 ] || fail 'the guide has too few commands'
on_exit 'kill -9 $(cat disk.pid) 2>/dev/null'
# A daemon's process id is there a moment after the command returned.
sed -i 's/^nbdkit .*/&; until [ -s disk.pid ]; do sleep 0.1; done/; s/^kill/sleep 0.2; &/' commands
sed -i 's/^nbdkit/rm -f disk.pid; &/' commands
bash -eux commands >said 2>&1 </dev/null || { cat said; fail 'a command fails'; }
expect_equal 'the backup is one of the whole disk' $((2 << 30)) "$(stat -c %s backup.img)"
expect_equal 'the size in the end' $((4 << 30)) "$(grep -x "$((4 << 30))" said)"

strings -n 4 "$plugin" "$nbdjournal" >texts
sed -n '/^| what you see/,$s/^| \(`[^|]*`[^|]*\) |.*/\1/p' "$guide" | grep -o '`[^`]*`' | tr -d '`' >quoted
[ "$(wc -l <quoted)" -ge 30 ] || fail 'the table was not found'
sed -i '/^Address already in use$/d' quoted # nbdkit's words
while IFS= read -r text; do
    grep -qF -- "$text" texts || fail "no program says: $text"
done <quoted
