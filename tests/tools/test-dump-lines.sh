#!/bin/bash
# dump: one record a line.
. "$(dirname "$0")/tools.sh"

fill records=12 align=512 commit=4
"$nbdjournal" dump "$journal" | expect_golden dump-lines
