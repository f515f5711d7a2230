#!/bin/sh
# test_web.sh SCRATCH: the lab page's own tests (web/test/*.test.mjs), which need no browser; for ./test.
#
# They find what was built through WEIR_LAB_WASM, WEIR_RELEASE (the release build) and WEIR_PAGES_JSON.
# That the page is well typed was checked when it was built.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
scratch=$1
cd "$root/web/test"
if [ ! -d ../node_modules ]; then
    echo "not ok - the lab page was not built, so its tests cannot run"
    echo "0 1 0" >>"$scratch/counts"
    exit 0
fi

WEIR_LAB_WASM=$root/build/web/lab.wasm
WEIR_RELEASE=$root/build/src/cli/weir
WEIR_PAGES_JSON=$root/build/web/lab_pages.json
TMPDIR=$scratch
export WEIR_LAB_WASM WEIR_RELEASE WEIR_PAGES_JSON TMPDIR
status=0
timeout -k 10 300 node --test --test-reporter=tap ./*.test.mjs >"$scratch/web.tap" 2>&1 </dev/null || status=$?
python3 "$root/tools/count_tests.py" node "$scratch/web.tap" "$scratch/counts"
if [ "$status" != 0 ]; then
    grep -v -E '^ *(ok |---$|\.\.\.$|duration_ms|type:|# Subtest|1\.\.)' "$scratch/web.tap" | tail -n 100
    [ "$status" != 124 ] || echo "not ok - the lab page's own tests took longer than 300 s"
fi
