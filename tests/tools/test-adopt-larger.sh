#!/bin/bash
# adopt: an image that became larger keeps its new end.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=30
truncate -s 3M "$image" "$expected"
expect_exit 3 replay "$journal"
expect_exit 0 adopt "$journal" "$image" --yes
expect_exit 0 replay "$journal"
expect_same "$image" "$expected"
