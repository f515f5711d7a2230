#!/bin/sh
# test_e2e.sh SCRATCH LONG: the end-to-end tests (tests/e2e/*.test.mjs) against real processes; for ./test.
#
# They find the gateway through WEIR_BIN (built with ASan and UBSan) and WEIR_RELEASE (release build).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
scratch=$1
long=$2
cd "$root/tests/e2e"
found=0
for file in *.test.mjs; do
    [ -e "$file" ] && found=$((found + 1))
done
if [ "$found" = 0 ]; then
    echo "no end-to-end tests"
    exit 0
fi

# What npm put there is kept as long as the lock file stays the same.
lock=$(cksum <package-lock.json)
if [ ! -f node_modules/.weir-lock ] || [ "$(cat node_modules/.weir-lock)" != "$lock" ]; then
    if ! npm ci --ignore-scripts --no-audit --no-fund >"$scratch/npm.log" 2>&1 </dev/null; then
        cat "$scratch/npm.log"
        echo "not ok - the clients could not be installed from npm"
        echo "0 1 0" >>"$scratch/counts"
        exit 0
    fi
    printf '%s\n' "$lock" >node_modules/.weir-lock
fi

WEIR_BIN=$root/build-test/src/cli/weir
WEIR_RELEASE=$root/build/src/cli/weir
TMPDIR=$scratch
export WEIR_BIN WEIR_RELEASE TMPDIR
[ "$long" = 1 ] && limit=5400 || limit=900
status=0
timeout -k 10 "$limit" node --test --test-reporter=tap ./*.test.mjs >"$scratch/e2e.tap" 2>&1 </dev/null || status=$?
python3 "$root/tools/count_tests.py" node "$scratch/e2e.tap" "$scratch/counts"
if [ "$status" != 0 ]; then
    # Node's TAP has the reasons indented below each "not ok"; what passed is of no interest here.
    grep -v -E '^ *(ok |---$|\.\.\.$|duration_ms|type:|# Subtest|1\.\.)' "$scratch/e2e.tap" | tail -n 200
    [ "$status" != 124 ] || echo "not ok - the end-to-end tests took longer than $limit s"
fi
