#!/bin/bash
# Usage errors end with 3 and say what is wrong; help ends with 0.
. "$(dirname "$0")/tools.sh"

commands='create info check dump replay resize adopt forget stats top'
expect_exit 3
expect_exit 3 no-such-command
expect_match "$out" "no-such-command"
expect_exit 3 --no-such-option
expect_exit 0 --help
expect_exit 0 help
for command in $commands; do
    expect_match "$out" "$command"
done
expect_exit 0 --version
expect_match "$out" '^nbdjournal [0-9]'
expect_exit 3 help no-such-command
for command in $commands; do
    expect_exit 3 "$command"
    expect_match "$out" "nbdjournal $command"
    expect_exit 3 "$command" --no-such-option
    expect_exit 0 "$command" --help
    expect_match "$out" "Usage: nbdjournal $command"
    help=$out
    expect_exit 0 help "$command"
    expect_equal "help $command" "$help" "$out"
done
expect_exit 3 resize "$journal"
expect_exit 3 replay "$journal" --to x
expect_exit 3 stats --json --prometheus sock
expect_exit 3 stats sock sock
expect_exit 3 top sock --interval 0
expect_exit 3 top sock
expect_match "$out" 'terminal'
expect_exit 3 adopt "$journal"
expect_exit 3 forget "$journal" "$image" "$image"
