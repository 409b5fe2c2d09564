#!/bin/sh
# Lays out wit/deps: the WASI interface files the contract refers to, from the wasmtime-wasi that Cargo.lock pins.
#
# So host and guests always agree on them. Installed, not kept in git; quick when it is done already.
set -eu

FILES="filesystem clocks io"
# What the components around a policy have besides: the interfaces that standard libraries import.
MORE_FILES="cli random sockets"

cd "$(dirname "$0")/../.."
# With each key of the metadata on a separate line, the path can be found without a JSON parser.
source=$(cargo metadata --locked --format-version 1 | tr ',' '\n' \
    | sed -n 's|^"manifest_path":"\(.*/wasmtime-wasi-[0-9][^/"]*\)/Cargo\.toml"$|\1|p')
if [ ! -d "$source" ]; then
    echo "wit/deps: wasmtime-wasi was not found by 'cargo metadata --locked'" >&2
    exit 1
fi

lay_out() {
    folder=$1
    shift
    mkdir -p "$folder"
    for name in "$@"; do
        new="$source/src/p2/wit/deps/$name.wit"
        cmp -s "$new" "$folder/$name.wit" && continue
        # By rename, so that a build under way never reads half a file.
        cp "$new" "$folder/.$name.wit"
        chmod 644 "$folder/.$name.wit"
        mv "$folder/.$name.wit" "$folder/$name.wit"
        echo "$folder/$name.wit laid out"
    done
}

# shellcheck disable=SC2086 # Lists of names.
lay_out wit/deps $FILES
# shellcheck disable=SC2086
lay_out wit/adapter/deps $MORE_FILES
