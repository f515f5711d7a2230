#!/bin/sh
# build_wasm.sh OUT.wasm [DEPFILE]: the lab page's WebAssembly module, with clang and lld for wasm32, and wasi-libc.
#
# It asks for nothing from outside (no import), and the same sources give the same bytes, whatever folder they lie in.
# Compiling and linking are two commands: clang's driver would run wasm-opt when it links, where there is one.
# WEIR_WASM_LEVEL: of optimisation; WEIR_WASM_STRIP=--strip-debug keeps the functions' names, to see what is large.
# Status 0: built. 1: not; said what and what to do.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
out=$1
depfile=${2:-}
level=${WEIR_WASM_LEVEL:-Oz}
more=${WEIR_WASM_FLAGS:-}
libc=/usr/lib/wasm32-wasi
for command in clang-14 wasm-ld-14; do
    if ! command -v "$command" >/dev/null 2>&1; then
        echo "weir: the lab page's module needs $command: sh tools/bootstrap.sh run installs it; or build without the page:" \
            "meson configure BUILD -Dpages=false, WEIR_PAGES=false ./run" >&2
        exit 1
    fi
done
builtins=$(clang-14 --target=wasm32-wasi -print-libgcc-file-name)
for file in $libc/libc.a "$builtins"; do
    if [ ! -f "$file" ]; then
        echo "weir: the lab page's module needs $file (packages wasi-libc and libclang-rt-14-dev-wasm32): sh tools/bootstrap.sh run" \
            "installs it; or build without the page: meson configure BUILD -Dpages=false, WEIR_PAGES=false ./run" >&2
        exit 1
    fi
done
scratch=$(mktemp -d "${TMPDIR:-/tmp}/weir-wasm.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# What is not here needs a machine or is for tests, and web/wasm/host.c answers in its place.
cd "$root"
sources=$(ls src/core/*.c src/lab/*.c src/trace/trace.c src/trace/trace_[cns]*.c \
    src/cli/lab_map.c src/cli/lab_figures.c src/cli/lab_recorded.c src/trace/trace_whole.c web/wasm/*.c | grep -v -e lab_audit -e refusal_message)
for name in config config_check config_lab config_ledger config_load config_names config_path config_print \
    config_rules config_scopes config_set config_table config_table_lab config_value config_walk config_words; do
    sources="$sources src/gateway/$name.c"
done
flags="--target=wasm32-wasi -std=c17 -D_GNU_SOURCE -$level -mbulk-memory -msign-ext -ffp-contract=off -fno-strict-aliasing
    -ftls-model=local-exec -ffunction-sections -fdata-sections -fno-ident -ffile-prefix-map=$root/= -Wall -Wextra -Werror
    -DWEIR_WITHOUT_REFERENCE -DWEIR_TRAP_ON_PANIC -Isrc -Iweb/wasm $more"

number=0
for source in $sources; do
    number=$((number + 1))
    lto=-flto
    [ "$source" != web/wasm/libc.c ] || lto=-fno-builtin # or calloc would be made a call of calloc
    # shellcheck disable=SC2086 # a list of flags
    clang-14 $flags $lto -c "$source" -o "$scratch/$(printf %03d $number).o" &
    [ $((number % 2)) != 0 ] || wait
done
wait
[ "$(ls "$scratch"/*.o | wc -l)" = "$number" ] || exit 1 # the compiler has said why
cd "$OLDPWD"
# Not more than 2 GiB: an address above that is a negative number to the page, and a tab would not outlive it.
wasm-ld-14 --max-memory=2147483648 --no-entry --gc-sections "${WEIR_WASM_STRIP:---strip-all}" --stack-first -z stack-size=1048576 \
    --compress-relocations -O2 -mllvm -inline-threshold=-100 -mllvm -disable-lsr -mllvm -enable-merge-functions --fatal-warnings "$scratch"/*.o -L$libc -lc "$builtins" -o "$out"
if [ -n "$depfile" ]; then
    echo "$out: $(ls "$root"/src/core/*.[ch] "$root"/src/lab/*.[ch] "$root"/src/trace/*.[ch] "$root"/src/measure/*.[ch] \
        "$root"/src/gateway/*.[ch] "$root"/src/cli/lab_*.[ch] "$root"/web/wasm/*.[ch] | tr '\n' ' ')" >"$depfile"
fi
