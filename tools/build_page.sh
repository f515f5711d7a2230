#!/bin/sh
# build_page.sh OUT [LAB.wasm]: checks and builds the lab page (web/) and packs it into OUT; ninja calls it.
#
#   OUT/page/            the page as it is served
#   OUT/page-file/       the page as one file, weir-lab.html
#   OUT/lab_pages.*      both packed for the program (tools/pack_pages.mjs), with what they were made of
#
# npm is asked only when the lock file changed. Without the page: -Dpages=false, or WEIR_PAGES=false ./run.
# Status 0: built. 1: not; said what, where and what to do.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
out=$(CDPATH='' cd -- "$1" && pwd)
wasm=${2:-}
case $wasm in
'' | /*) ;;
*) wasm=$(pwd)/$wasm ;;
esac
cd "$root/web"
log=$out/page.log

fail() { # what, what to do
    cat "$log" >&2
    echo "weir: the lab page (web/): $1 (above is why)." >&2
    echo "weir: $2; or build without the page: meson configure BUILD -Dpages=false, WEIR_PAGES=false ./run" >&2
    exit 1
}

for command in node npm; do
    if ! command -v "$command" >/dev/null 2>&1; then
        echo "no command '$command'" >"$log"
        fail "$command is missing" "sh tools/bootstrap.sh run installs it"
    fi
done
major=$(node --version | sed -n 's/^v\([0-9][0-9]*\).*/\1/p')
if [ "${major:-0}" -lt 18 ]; then
    echo "$(command -v node) is Node.js $(node --version)" >"$log"
    fail "it needs Node.js 18 or newer" "sh tools/bootstrap.sh run installs Debian's /usr/bin/node, which must come first in PATH"
fi

# Two build folders may come here at once; what npm makes is for both.
[ ! -x /usr/bin/flock ] || { exec 9<package.json && /usr/bin/flock 9; }
lock=$(cksum <package-lock.json)
if [ "$(cat node_modules/.weir-lock 2>/dev/null)" != "$lock" ]; then
    npm ci --ignore-scripts --no-audit --no-fund >"$log" 2>&1 </dev/null 9<&- ||
        fail "its packages could not be installed from npm" "see to it that npm reaches its registry (npm ping), and build again"
    printf '%s\n' "$lock" >node_modules/.weir-lock
fi
exec 9<&-

for project in tsconfig.json tsconfig.build.json; do
    node_modules/.bin/tsc --noEmit --pretty false -p "$project" >"$log" 2>&1 </dev/null ||
        fail "TypeScript found a mistake" "mend it in web/ (npm --prefix web run check shows it again)"
done
WEIR_LAB_WASM=$wasm
export WEIR_LAB_WASM
for form in served file; do
    [ "$form" = served ] && folder=$out/page || folder=$out/page-file
    WEIR_PAGE_FORM=$form WEIR_PAGE_OUT=$folder node_modules/.bin/vite build --logLevel warn >"$log" 2>&1 </dev/null ||
        fail "Vite could not build it ($form)" "mend it in web/ (npm --prefix web run build shows it again)"
    cat "$log" >&2 # warnings
done
rm -f "$log"
exec node "$root/tools/pack_pages.mjs" "$out" "$root"
