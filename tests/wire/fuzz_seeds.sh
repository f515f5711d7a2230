#!/bin/sh
# Makes the seeds of the wire fuzz targets from tests/data/wire: fuzz_seeds.sh DIR
# A first byte chooses API (and, for responses, stream or body; for encodings, the encoding).
set -eu
out=$1
data=$(dirname "$0")/../data/wire
mkdir -p "$out/request" "$out/usage" "$out/sse_edit" "$out/hints" "$out/encoding" "$out/usage_export"

seed() { # room, first byte in octal, file
    { printf "$2"; cat "$3"; } >"$out/$1/$(basename "$3").$(printf %s "$2" | tr -d '\\')"
}
for f in "$data"/request/*; do
    for api in '\000' '\002' '\003' '\004'; do seed request "$api" "$f"; done
    { printf '\000'; gzip -c "$f"; } >"$out/encoding/$(basename "$f").gz"
    if command -v zstd >/dev/null; then
        { printf '\002'; zstd -qc "$f"; } >"$out/encoding/$(basename "$f").zst"
    fi
done
for f in "$data"/body/* "$data"/error/*; do
    for api in '\000' '\002' '\004'; do seed usage "$api" "$f"; done
done
for f in "$data"/stream/*; do
    # The first events and the last: long seeds make a slow fuzzer.
    for part in head tail; do
        $part -n 8 "$f" >"$out/part"
        for api in '\200' '\202' '\204'; do
            seed usage "$api" "$out/part"
            mv "$out/usage/part.$(printf %s "$api" | tr -d '\\')" "$out/usage/$(basename "$f").$part.$(printf %s "$api" | tr -d '\\')"
        done
        cp "$out/part" "$out/sse_edit/$(basename "$f").$part"
    done
done
rm -f "$out/part"
for f in "$data"/http/*; do tr -d '\r' <"$f" >"$out/hints/$(basename "$f")"; done
cp "$data"/usage/* "$out/usage_export"
