#!/bin/sh
# Copies the built component into the packages that contain it: packages.sh TARGET_DIR
set -eu

[ $# -eq 1 ] || { echo "usage: packages.sh TARGET_DIR" >&2; exit 2; }
built=$(cd "$1" && pwd)/wasm32-unknown-unknown/component
# A newer Node than many distributions have, if it was installed for the tests.
for folder in "$built"/../../test-data/mcp/node_modules/node-linux-*/bin; do PATH=$folder:$PATH; done
cd "$(dirname "$0")/../../host-example"

cp "$built/lro_policy.wasm" python/lro_filter/
for package in node edge; do
    (
        cd "$package"
        npm install --no-audit --no-fund --no-package-lock --loglevel=error
        CARGO_TARGET_DIR=$built/../.. npm run --silent build
    )
done
