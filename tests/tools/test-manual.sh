#!/bin/bash
# The manual names every command and every option that --help names, and no other options.
. "$(dirname "$0")/tools.sh"

manual=$JOURNAL_SOURCE/docs/nbdjournal.1.pod
options=
for command in create info check dump replay resize adopt forget stats top; do
    grep -q "^ nbdjournal $command " "$manual" || fail "$command is not in SYNOPSIS"
    grep -q "^=head2 $command " "$manual" || fail "$command has no section"
    synopsis=$(sed -n "/^ nbdjournal $command /,/^$/p" "$manual")
    expect_exit 0 "$command" --help
    for option in $(grep -oE -- '--[a-z]+' <<<"$out" | sort -u); do
        case $option in
            --help | --usage | --version) continue ;;
        esac
        grep -qF -- "$option" <<<"$synopsis" || fail "$command $option is not in SYNOPSIS"
        options="$options $option"
    done
done
for option in $(grep -oE -- '--[a-z]+' "$manual" | sort -u); do
    [[ " $options " == *" $option "* ]] || fail "the manual has $option, which is not there"
done
