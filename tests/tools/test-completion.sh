#!/bin/bash
# Completion for bash offers every command, every option and every pattern that the manual has, and file
# names where files are wanted.
. "$(dirname "$0")/tools.sh"

completion=/usr/share/bash-completion/bash_completion
[ -e $completion ] || skip 'bash-completion is not installed'
nbdload=$JOURNAL_BUILD/tools/nbdload/nbdload

# offered WORD...: what is offered for the last word, one a line.
offered() {
    PATH=$JOURNAL_BUILD/tools/nbdjournal:$JOURNAL_BUILD/tools/nbdload:$PATH \
        bash --norc -c '
        . '"$completion"'
        . "$JOURNAL_SOURCE/tools/completion/$1"
        compopt() { :; } # works only while the line editor is at work
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"
        COMP_POINT=${#COMP_LINE}
        "_$1" "$1" "${@: -1}" "${@: -2:1}"
        printf "%s\n" "${COMPREPLY[@]}" | sort' bash "$@" 2>offered.err
    [ ! -s offered.err ] || { cat offered.err; fail "completion of: $*"; }
}

# expect_offered WORDS WANTED: with = taken off.
expect_offered() {
    expect_equal "offered for: $1" "$(sort <<<"$2")" "$(offered $1 "${3-}" | sed 's/=$//')"
}

common='--help
--usage
--version'
manual=$JOURNAL_SOURCE/docs/nbdjournal.1.pod
commands=$(sed -n '/^=head1 COMMANDS/,/^=head1 EXIT/s/^=head2 \([a-z]*\) .*/\1/p' "$manual")
[ "$(wc -l <<<"$commands")" -ge 8 ] || fail "the manual has only these commands: $commands"
expect_offered nbdjournal "$commands
help"
expect_offered 'nbdjournal help' "$commands"
expect_offered nbdjournal "$common" -
expect_equal 'offered for: nbdjournal che' check "$(offered nbdjournal che)"
touch 'a journal' other
mkdir 'a folder'
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("a socket")'
for command in $commands; do
    options=$(sed -n "/^ nbdjournal $command /,/^$/p" "$manual" | grep -oE -- '--[a-z]+' | sort -u || true)
    expect_offered "nbdjournal $command" "$common${options:+
$options}" -
    case $command in
        # A running server's, or what is on the way to it.
        stats | top) wanted='a folder
a socket' ;;
        *) wanted='a folder
a journal
a socket' ;;
    esac
    expect_equal "offered for: nbdjournal $command a" "$wanted" "$(offered nbdjournal "$command" a)"
done
expect_equal 'a file behind an option' other "$(offered nbdjournal dump x --image oth)"
expect_equal 'a file behind an option and =' other "$(offered nbdjournal dump x --image=oth)"
expect_equal 'a number' '' "$(offered nbdjournal resize x --size '')"
expect_equal 'an option behind a file' --json "$(offered nbdjournal info x --js)"

[ -x "$nbdload" ] || exit 0
manual=$JOURNAL_SOURCE/docs/nbdload.1.pod
expect_offered nbdload "$common
$(sed -n 's/^=item B<\(--[a-z-]*\)>.*/\1/p' "$manual")" -
expect_offered 'nbdload verify' "$common
--atomic
--json
--order
--power
--quiet
--stall" -
expect_offered 'nbdload --pattern' "$(sed -n '/^=head1 PATTERNS/,/^=head1 VERIFY/s/^=item B<\([a-z-]*\)>.*/\1/p' "$manual")"
expect_equal 'pattern behind =' final-flush "$(offered nbdload --pattern=fi)"
expect_equal 'pattern behind -p' mixed "$(offered nbdload -p mi)"
expect_equal order 'all
disk
none' "$(offered nbdload --power --order '')"
expect_equal ledger other "$(offered nbdload --verify oth)"
expect_equal 'ledger to verify' other "$(offered nbdload verify oth)"
expect_equal trace other "$(offered nbdload --pattern trace oth)"
expect_equal 'a number' '' "$(offered nbdload --clients '')"
expect_equal 'a number behind -c' '' "$(offered nbdload -c '')"
expect_equal 'a URI' nbds:// "$(offered nbdload -q nbds: | sed 's/^\/\//nbds:&/')"
expect_equal 'verify' verify "$(offered nbdload ver)"
expect_equal 'verify, later' '' "$(offered nbdload -q ver)"
