#!/bin/sh
# same_bytes.sh ROOT PROGRAM: the same seed gives the same bytes, whatever compiled the model. TAP.
#
# PROGRAM is tests/lab/same_bytes.c as this build folder made it. Besides, core, trace's pure part and lab are built
# with gcc and clang at -O0 and -O3 (WEIR_TEST_LONG=1: at -O0, -O1, -O2, -O3 and -Os), and all say what
# tests/data/lab/same_bytes.txt keeps. After a change that is meant to change it:
#
#   build-test/tests/lab/lab_same_bytes >tests/data/lab/same_bytes.txt
#
# Also: a float in lab does not get through either compiler, and what either makes of these sources without sanitizers
# needs nothing from outside (a build folder checks what its own compiler and flags made). Sources and flags are those
# of src/lab/meson.build, but for what is varied here. A compiler that is missing is said to be, in skipped cases. Two
# builds at a time. Status 0: all alike.
set -eu

root=$1
program=$2
golden=$root/tests/data/lab/same_bytes.txt
flags='-std=c17 -D_GNU_SOURCE -w -fno-strict-aliasing'
levels='0 3'
[ "${WEIR_TEST_LONG-}" != 1 ] || levels='0 1 2 3 s'
scratch=$(mktemp -d "${TMPDIR:-/tmp}/weir-same-bytes.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

number=0
failed=0
claim() { # 0: it is so, CLAIM, FILE of reasons
    number=$((number + 1))
    if [ "$1" = 0 ]; then
        echo "ok $number - $2"
        return
    fi
    echo "not ok $number - $2"
    sed 's/^/# /' "$3"
    failed=1
}

# The parts of trace that are not for files, as its meson.build names them; by a path without blanks.
ln -s "$root" "$scratch/root"
trace_sources=
for name in $(sed -n "s/^trace_sources = files(\(.*\))/\1/p" "$root/src/trace/meson.build" | tr -d "',"); do
    trace_sources="$trace_sources ../root/src/trace/$name"
done

# build COMPILER LEVEL FOLDER: the program in FOLDER, or its reasons in FOLDER/said.
# shellcheck disable=SC2086
build() {
    mkdir "$3"
    (
        cd "$3"
        "$1" $flags "-O$2" -mgeneral-regs-only -I../root/src -c ../root/src/core/*.c ../root/src/lab/*.c $trace_sources &&
            "$1" $flags "-O$2" -I../root/src ../root/tests/lab/same_bytes.c ./*.o -o program
    ) >"$3/said" 2>&1
}

compare() { # PROGRAM, CLAIM, FILE for reasons
    status=0
    if [ -x "$1" ]; then
        "$1" >"$3" || status=1
        diff "$golden" "$3" >"$3.all" || status=1
        head -6 "$3.all" >"$3.diff"
        echo "every number: compare what --all says of two builds of tests/lab/same_bytes.c" >>"$3.diff"
        claim "$status" "$2" "$3.diff"
    else
        claim 1 "$2" "$3"
    fi
}

check_needs() { # FOLDER, COMPILER and LEVEL
    status=0
    ar rc "$1/pure.a" "$1"/*.o 2>"$1/needs" && sh "$root/tools/core_symbols.sh" plain "$1/pure.a" >>"$1/needs" 2>&1 || status=1
    claim "$status" "$2: core, lab and trace need nothing from outside" "$1/needs"
}

check_float() { # COMPILER
    file=$scratch/float
    echo 'long scaled(long v); long scaled(long v) { double d = (double)v; return (long)(d * 1.5); }' >"$file.c"
    status=1
    if "$1" -O2 -mgeneral-regs-only -c "$file.c" -o "$file.o" 2>"$file.said"; then
        rm -f "$file.a"
        ar rc "$file.a" "$file.o"
        sh "$root/tools/core_symbols.sh" plain "$file.a" >"$file.said" 2>&1 || status=0
    else
        status=0
    fi
    claim "$status" "$1: a float in lab does not build" "$file.said"
}

echo "TAP version 13"
compare "$program" "this build: the bytes of tests/data/lab/same_bytes.txt" "$scratch/said"
for compiler in gcc clang-14; do
    if ! command -v "$compiler" >/dev/null; then
        number=$((number + 1))
        echo "ok $number - $compiler # SKIP $compiler is not installed: sh tools/bootstrap.sh test"
        continue
    fi
    check_float "$compiler"
    running=0
    for level in $levels; do
        build "$compiler" "$level" "$scratch/$compiler$level" &
        running=$((running + 1))
        [ $((running % 2)) != 0 ] || wait
    done
    wait
    for level in $levels; do
        compare "$scratch/$compiler$level/program" "$compiler at -O$level: the same bytes" "$scratch/$compiler$level/said"
        check_needs "$scratch/$compiler$level" "$compiler at -O$level"
    done
done
echo "1..$number"
exit "$failed"
