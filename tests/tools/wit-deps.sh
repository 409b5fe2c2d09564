#!/bin/sh
# Lays out wit/deps: the WASI interface files the contract refers to, from the wasmtime-wasi that Cargo.lock pins, and those of
# WASI 0.3 from its wasmtime-wasi-http.
#
# So host and guests always agree on them. Installed, not kept in git; quick when it is done already.
set -eu

FILES="filesystem clocks io"
# What the components around a policy have besides: the interfaces that standard libraries import.
MORE_FILES="cli random sockets"
# What the components that speak HTTP have, of WASI 0.3.
HTTP_FILES="cli clocks filesystem http random sockets"

cd "$(dirname "$0")/../.."
# package NAME OPTION...: the folder of a package, by options of `cargo metadata`. With each key of the metadata on a separate line, it can be found without a JSON parser.
package() {
    name=$1
    shift
    folder=$(cargo metadata --locked --format-version 1 "$@" | tr ',' '\n' \
        | sed -n "s|^\"manifest_path\":\"\(.*/$name-[0-9][^/\"]*\)/Cargo\.toml\"\$|\1|p")
    if [ ! -d "$folder" ]; then
        echo "wit/deps: $name was not found by 'cargo metadata --locked $*'" >&2
        exit 1
    fi
    echo "$folder"
}

# lay_out FROM FOLDER NAME...
lay_out() {
    from=$1
    folder=$2
    shift 2
    mkdir -p "$folder"
    for name in "$@"; do
        new="$from/$name.wit"
        cmp -s "$new" "$folder/$name.wit" && continue
        # By rename, so that a build under way never reads half a file.
        cp "$new" "$folder/.$name.wit"
        chmod 644 "$folder/.$name.wit"
        mv "$folder/.$name.wit" "$folder/$name.wit"
        echo "$folder/$name.wit laid out"
    done
}

wasi=$(package wasmtime-wasi)/src/p2/wit/deps
http=$(package wasmtime-wasi-http)/src/p3/wit/deps
# shellcheck disable=SC2086 # Lists of names.
lay_out "$wasi" wit/deps $FILES
# shellcheck disable=SC2086
lay_out "$wasi" wit/adapter/deps $MORE_FILES
# shellcheck disable=SC2086
lay_out "$http" wit/http/deps $HTTP_FILES
