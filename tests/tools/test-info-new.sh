#!/bin/bash
# info: a journal that was never used.
. "$(dirname "$0")/tools.sh"

expect_exit 0 create "$journal" --size 4M
expect_exit 0 info "$journal"
echo "$out" | masked | expect_golden info-new
