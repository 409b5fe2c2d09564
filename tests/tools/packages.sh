#!/bin/sh
# Puts the component that cargo built into the packages that carry it: packages.sh TARGET_DIR
set -eu

[ $# -eq 1 ] || { echo "usage: packages.sh TARGET_DIR" >&2; exit 2; }
built=$(cd "$1" && pwd)/wasm32-unknown-unknown/component
cd "$(dirname "$0")/../../host-example"

cp "$built/lro_policy.wasm" python/lro_filter/
for package in node edge; do
    (
        cd "$package"
        npm install --no-audit --no-fund --no-package-lock --loglevel=error
        CARGO_TARGET_DIR=$built/../.. npm run --silent build
    )
done
