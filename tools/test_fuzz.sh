#!/bin/sh
# test_fuzz.sh SCRATCH LONG: runs every fuzz target for its share of the time; for ./test.
#
# 90 seconds in all, two targets at a time; with LONG 1, five minutes for each. Seeds are the samples in
# tests/data. What a target trips over is kept in build-fuzz/found, with the command that replays it.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
scratch=$1
long=$2
cd "$root/build-fuzz" # so that a blank in the path of the project does no harm below
targets=$(find tests -type f -name '*_fuzz' -perm -u+x | sort)
if [ -z "$targets" ]; then
    echo "no fuzz targets"
    exit 0
fi
count=$(echo "$targets" | wc -l)
if [ "$long" = 1 ]; then
    each=300
else
    each=$((90 * 2 / count))
    [ "$each" -ge 3 ] || each=3
    [ "$each" -le 30 ] || each=30
fi
found=$root/build-fuzz/found
mkdir -p "$found"

fuzz() { # target
    name=$(basename "$1")
    corpus=$scratch/corpus-$name
    mkdir -p "$corpus"
    if WEIR_TEST_DATA=$root/tests/data timeout -k 10 "$((each + 120))" "./$1" "$corpus" "$root/tests/data" \
        -max_total_time="$each" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$found/$name-" -verbosity=0 >"$scratch/$name.log" 2>&1 </dev/null; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/$name.log")
        echo "ok - $name: $runs inputs in $each s"
        echo "1 0 0" >>"$scratch/counts"
    else
        echo "not ok - $name"
        tail -n 60 "$scratch/$name.log" | sed 's/^/   /'
        echo "   replay: build-fuzz/$1 build-fuzz/found/<the file named above>"
        echo "0 1 0" >>"$scratch/counts"
    fi
    rm -rf "$corpus"
}

waiting=0
for target in $targets; do
    fuzz "$target" &
    waiting=$((waiting + 1))
    if [ "$waiting" = 2 ]; then
        wait
        waiting=0
    fi
done
wait
