#!/bin/bash
# adopt: killed before each system call that changes anything: the pair is refused as before or
# accepted, and adopt finishes the work.
. "$(dirname "$0")/tools.sh"
requires_marks

fill records=20
mkdir other
before() {
    rm -f other/*
    cp "$journal" other/journal
    cp "$image" other/image
}
after() {
    expect_exit 0 adopt other/journal other/image --yes
    expect_exit 0 replay other/journal
    expect_same other/image "$expected"
}
killed_everywhere before after adopt other/journal other/image --yes
