#!/bin/sh
# bootstrap.sh gateway|run|test|bench: sees to it that what weir needs is installed (Debian 12).
#
#   gateway  what it takes to build the gateway
#   run      besides, what its lab page is built with: a compiler to WebAssembly, Node.js, npm
#   test     besides run, what the tests need
#   bench    besides gateway, the proxies and load generator that benchmarks compare with
#
# Nothing missing: says nothing and is done at once. Otherwise says what it installs, as root or through
# sudo; with neither it names the packages and stops with status 2.
set -eu

what=${1:-run}
packages='gcc libc6-dev pkg-config meson ninja-build libssl-dev libc-ares-dev libyaml-dev libjansson-dev
zlib1g-dev libzstd-dev libsqlite3-dev libglib2.0-dev libcsv-dev tzdata ca-certificates curl'
page='clang-14 lld-14 wasi-libc libclang-rt-14-dev-wasm32'
commands=''
case $what in
gateway) ;;
run)
    packages="$packages $page"
    commands='node npm'
    ;;
test)
    packages="$packages $page libclang-rt-14-dev libcmocka-dev node-llhttp openssl valgrind chromium fonts-dejavu-core"
    commands='node npm'
    ;;
bench) packages="$packages haproxy nginx-light wrk" ;;
*)
    echo "usage: tools/bootstrap.sh gateway|run|test|bench" >&2
    exit 2
    ;;
esac

# Node.js is looked for as a command: it is often not Debian's own, and Debian's npm conflicts with those.
node_is_new_enough() {
    command -v node >/dev/null 2>&1 || return 1
    major=$(node --version 2>/dev/null | sed -n 's/^v\([0-9][0-9]*\).*/\1/p')
    [ -n "$major" ] && [ "$major" -ge 18 ]
}

missing=''
if command -v dpkg-query >/dev/null 2>&1; then
    # One call for all: a line for each that is installed.
    # shellcheck disable=SC2086,SC2016
    installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' $packages 2>/dev/null |
        sed -n 's/^ii  *//p' | tr '\n' ' ')
    for package in $packages; do
        case " $installed " in
        *" $package "*) ;;
        *) missing="$missing $package" ;;
        esac
    done
else
    # Not Debian: whoever builds here brings the same things under other names.
    for command in cc meson ninja pkg-config curl; do
        command -v "$command" >/dev/null 2>&1 || missing="$missing $command"
    done
    [ -z "$missing" ] || {
        echo "weir: not a Debian system. Please install:$missing" >&2
        echo "weir: and the development files of OpenSSL 3, c-ares, libyaml, jansson, zlib, zstd, SQLite, GLib," >&2
        echo "weir: and libcsv." >&2
        exit 2
    }
fi
case " $commands " in
*' node '*)
    if ! node_is_new_enough; then
        missing="$missing nodejs npm"
    elif ! command -v npm >/dev/null 2>&1; then
        missing="$missing npm"
    fi
    ;;
esac

# nginx may be installed as any of its variants.
case "$missing" in
*' nginx-light'*)
    if command -v nginx >/dev/null 2>&1; then
        missing=$(echo "$missing" | sed 's/ nginx-light//')
    fi
    ;;
esac

[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=''
elif command -v sudo >/dev/null 2>&1; then
    sudo='sudo'
else
    echo "weir: these Debian packages are missing, and neither root nor sudo is there to install them:" >&2
    echo "   $missing" >&2
    echo "weir: as root:  apt-get install --no-install-recommends$missing" >&2
    exit 2
fi

echo "weir: installing:$missing" >&2
log=$(mktemp "${TMPDIR:-/tmp}/weir-bootstrap.XXXXXX")
trap 'exit 130' INT TERM
# No configuration question may stop an unattended run.
apt() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@" >>"$log" 2>&1 </dev/null
}
fail() {
    tail -n 20 "$log" >&2
    echo "weir: the packages could not be installed (above is the end of what apt-get said; all of it: $log)." >&2
    case $what$missing in
    run*' npm'*) echo "weir: without its lab page weir needs neither Node.js nor npm: WEIR_PAGES=false ./run" >&2 ;;
    esac
    exit 2
}
apt update || fail
# What apt-get cannot find it has warned of only; it is told by the installation.
# shellcheck disable=SC2086
count=$(apt-get -s -qq --no-install-recommends install $missing 2>/dev/null | grep -c '^Inst ') || true
echo "weir: $count packages with what these need; to look on: tail -f $log" >&2
# shellcheck disable=SC2086
apt install -y --no-install-recommends $missing || fail
rm -f "$log"

case " $commands " in
*' node '*)
    # One that is older may stand before Debian's in PATH.
    if ! node_is_new_enough; then
        echo "weir: $(command -v node) is Node.js $(node --version 2>&1 | head -n 1); the lab page needs 18 or newer, as in /usr/bin/node:" >&2
        echo "weir: put that first in PATH; or build without the page: WEIR_PAGES=false ./run" >&2
        exit 2
    fi
    ;;
esac
