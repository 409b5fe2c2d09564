#!/bin/sh
# Installs the packages whose data the tests use: set-up.sh TARGET_DIR
# or what the benchmarks measure against:         set-up.sh TARGET_DIR bench
#
# Nothing of them is kept in git. What is there already is left alone, and a run that was cut short goes on where it was,
# so this is quick when called again. Versions are pinned: a test may count on what the data holds.
set -eu

NPM_PACKAGES="vega-datasets@3.2.1 world-countries@5.1.0 emoji-datasource@16.0.0"
PYTHON_PACKAGES="pycountry==26.2.16 airportsdata==20260905 jsonschema==4.26.0"
BENCH_PACKAGES="duckdb==2.0.0"

usage() {
    echo "usage: set-up.sh TARGET_DIR [bench]" >&2
    exit 2
}

[ $# -eq 1 ] || [ "$*" = "${1-} bench" ] || usage
mkdir -p "$1"
target=$(cd "$1" && pwd)

# A stamp tells what a step has finished installing; another version in the list above makes the step run again.
done_already() {
    [ -f "$target/$1.stamp" ] && [ "$(cat "$target/$1.stamp")" = "$2" ]
}

finished() {
    printf '%s\n' "$2" > "$target/$1.stamp"
    echo "set-up: $1 ready in $target"
}

# Each tool, and the Debian package it is in.
require_tools() {
    missing=
    for pair in "$@"; do
        command -v "${pair%%:*}" > /dev/null 2>&1 || missing="$missing ${pair#*:}"
    done
    python3 -c 'import ensurepip' > /dev/null 2>&1 || missing="$missing python3-venv"
    [ -z "$missing" ] && return
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null 2>&1; then
        echo "set-up: these packages are missing:$missing" >&2
        echo "hint: install them as root, on Debian: apt-get install$missing" >&2
        exit 1
    fi
    echo "set-up: installing$missing"
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of names
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null
}

install_npm() {
    done_already npm "$NPM_PACKAGES" && return
    echo "set-up: installing $NPM_PACKAGES"
    mkdir -p "$target/npm"
    # shellcheck disable=SC2086 # a list of names
    npm install --prefix "$target/npm" --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error $NPM_PACKAGES
    finished npm "$NPM_PACKAGES"
}

# A venv that was cut short has no working pip; made again in place, it has one, and nothing else.
make_venv() {
    "$target/venv/bin/python" -m pip --version > /dev/null 2>&1 && return
    rm -f "$target/python.stamp" "$target/bench.stamp"
    python3 -m venv --clear "$target/venv"
}

# install_python STAMP PACKAGES
install_python() {
    done_already "$1" "$2" && return
    echo "set-up: installing $2"
    make_venv
    # shellcheck disable=SC2086 # a list of names
    "$target/venv/bin/python" -m pip install --quiet $2
    finished "$1" "$2"
}

if [ "${2-}" = bench ]; then
    require_tools jq:jq python3:python3
    install_python bench "$BENCH_PACKAGES"
else
    require_tools jq:jq node:nodejs npm:npm python3:python3
    install_npm
    install_python python "$PYTHON_PACKAGES"
fi
echo "set-up: complete in $target"
