#!/bin/sh
# Installs the packages whose data the tests use: set-up.sh TARGET_DIR
#
# Nothing of them is kept in git. What is there already is left alone, and a run that was cut short goes on where it was,
# so this is quick when called again. Versions are pinned: a test may count on what the data holds.
set -eu

NPM_PACKAGES="vega-datasets@3.2.1 world-countries@5.1.0 emoji-datasource@16.0.0"
PYTHON_PACKAGES="pycountry==26.2.16 airportsdata==20260905 jsonschema==4.26.0"

if [ $# -ne 1 ]; then
    echo "usage: set-up.sh TARGET_DIR" >&2
    exit 2
fi
mkdir -p "$1"
target=$(cd "$1" && pwd)

# A stamp tells what a step has finished installing; another version in the list above makes the step run again.
done_already() {
    [ -f "$target/$1.stamp" ] && [ "$(cat "$target/$1.stamp")" = "$2" ]
}

finished() {
    printf '%s\n' "$2" > "$target/$1.stamp"
    echo "test data: $1 ready in $target"
}

require_tools() {
    missing=
    for pair in jq:jq node:nodejs npm:npm python3:python3; do
        command -v "${pair%%:*}" > /dev/null 2>&1 || missing="$missing ${pair#*:}"
    done
    python3 -c 'import ensurepip' > /dev/null 2>&1 || missing="$missing python3-venv"
    [ -z "$missing" ] && return
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null 2>&1; then
        echo "test data: these packages are missing:$missing" >&2
        echo "hint: install them as root, on Debian: apt-get install$missing" >&2
        exit 1
    fi
    echo "test data: installing$missing"
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of names
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null
}

install_npm() {
    done_already npm "$NPM_PACKAGES" && return
    echo "test data: installing $NPM_PACKAGES"
    mkdir -p "$target/npm"
    # shellcheck disable=SC2086 # a list of names
    npm install --prefix "$target/npm" --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error $NPM_PACKAGES
    finished npm "$NPM_PACKAGES"
}

install_python() {
    done_already python "$PYTHON_PACKAGES" && return
    echo "test data: installing $PYTHON_PACKAGES"
    # A venv that was cut short has no working pip; made again in place, it has one.
    "$target/venv/bin/python" -m pip --version > /dev/null 2>&1 || python3 -m venv --clear "$target/venv"
    # shellcheck disable=SC2086 # a list of names
    "$target/venv/bin/python" -m pip install --quiet $PYTHON_PACKAGES
    finished python "$PYTHON_PACKAGES"
}

require_tools
install_npm
install_python
echo "test data: complete in $target"
