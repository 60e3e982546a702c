#!/bin/bash
# info: what waits, for which image, and what to do next.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20 align=512
expect_exit 0 info "$journal"
echo "$out" | masked | expect_golden info-waiting
