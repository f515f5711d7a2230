#!/bin/sh
# build.sh FOLDER [meson setup options]: configures FOLDER once and builds it; CC chooses the compiler.
#
# Quiet unless something fails. A folder that was configured with other options, from another place, or
# only half way, is configured anew. Nothing to do takes a tenth of a second.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
folder=$1
shift
case $folder in
/*) ;;
*) folder=$root/$folder ;;
esac

log=$(mktemp "${TMPDIR:-/tmp}/weir-build.XXXXXX")
trap 'rm -f "$log"' EXIT
stamp=$folder/.weir-options
wanted="$root $(cksum <"$root/meson_options.txt") ${CC:-cc} $*"

fail() {
    # Of ninja's log only what went wrong; of anything else all.
    if grep -q '^FAILED' "$log"; then
        grep -v '^\[[0-9]*/[0-9]*\] ' "$log" >&2
    else
        cat "$log" >&2
    fi
    echo "weir: $1 failed in $folder (above is why)." >&2
    exit 3
}

if [ ! -f "$folder/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$folder"
    meson setup "$folder" "$root" "$@" >"$log" 2>&1 </dev/null || fail "meson setup"
    printf '%s\n' "$wanted" >"$stamp"
fi
ninja -C "$folder" >"$log" 2>&1 </dev/null || fail "the build"
