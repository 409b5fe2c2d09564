#!/bin/sh
# Lays out wit/deps: the WASI interface files the contract refers to, from the wasmtime-wasi that Cargo.lock pins.
#
# So host and guests always agree on them. Installed, not kept in git; quick when it is done already.
set -eu

FILES="filesystem clocks io cli random sockets"

cd "$(dirname "$0")/../.."
# With each key of the metadata on a separate line, the path can be found without a JSON parser.
source=$(cargo metadata --locked --format-version 1 | tr ',' '\n' \
    | sed -n 's|^"manifest_path":"\(.*/wasmtime-wasi-[0-9][^/"]*\)/Cargo\.toml"$|\1|p')
if [ ! -d "$source" ]; then
    echo "wit/deps: wasmtime-wasi was not found by 'cargo metadata --locked'" >&2
    exit 1
fi
mkdir -p wit/deps
for name in $FILES; do
    new="$source/src/p2/wit/deps/$name.wit"
    cmp -s "$new" "wit/deps/$name.wit" && continue
    # By rename, so that a build under way never reads half a file.
    cp "$new" "wit/deps/.$name.wit"
    chmod 644 "wit/deps/.$name.wit"
    mv "wit/deps/.$name.wit" "wit/deps/$name.wit"
    echo "wit/deps/$name.wit laid out"
done
