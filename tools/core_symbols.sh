#!/bin/sh
# core_symbols.sh plain|instrumented ARCHIVE [BELOW...]: checks that the core and what is as pure as it stay so.
#
# Lists what ARCHIVE needs from outside itself and fails, naming each, if that is more than the memcpy
# family (bcmp is clang's memcmp where only equality counts), the compiler's own helpers, and what the
# archives BELOW define (rooms that it may use, themselves checked): no clock, allocation, I/O, or float
# arithmetic done in software. A call of time(), malloc() or printf() therefore fails the build.
# `instrumented` allows for sanitizers, coverage and fuzzing too.
# Status 0: pure. 1: not.
set -eu

mode=$1
archive=$2
shift 2
room=$(basename "$archive" .a)
room=${room#lib}
allowed='memcpy|memmove|memset|memcmp|bcmp|__mem(cpy|move|set)_chk'
allowed="$allowed|__u?divti3|__u?modti3|__u?divmodti4|__multi3|__(ash|lsh)[lr]ti3|__lshrti3"
allowed="$allowed|__stack_chk_(fail|guard)|_GLOBAL_OFFSET_TABLE_"
if [ "$mode" = instrumented ]; then
    allowed="$allowed|__(asan|ubsan|tsan|msan|hwasan|lsan|sanitizer|sancov|gcov|llvm|start___sancov|stop___sancov).*"
    allowed="$allowed|__lsan.*|mcount"
fi

defined=$(mktemp)
trap 'rm -f "$defined"' EXIT
if ! nm --defined-only "$archive" 2>/dev/null | awk 'NF == 3 { n++ } END { exit n == 0 }'; then
    echo "core_symbols: $archive defines nothing that nm can read" >&2
    exit 1
fi
nm --defined-only "$archive" "$@" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$defined"
stray=$(nm -u "$archive" 2>/dev/null | awk '$1 == "U" || $1 == "w" { print $2 }' | sort -u |
    comm -23 - "$defined" | grep -Evx "$allowed" || true)
if [ -n "$stray" ]; then
    echo "core_symbols: $room must not need:" $stray >&2
    nm -A -u "$archive" 2>/dev/null | while read -r object type name; do
        for one in $stray; do
            [ "${name:-$type}" != "$one" ] || echo "  $one, in $object" >&2
        done
    done
    exit 1
fi
