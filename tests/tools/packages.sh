#!/bin/sh
# Puts the default policy, and components composed around policies, into the packages: packages.sh TARGET_DIR
set -eu

[ $# -eq 1 ] || { echo "usage: packages.sh TARGET_DIR" >&2; exit 2; }
built=$(cd "$1" && pwd)/wasm32-unknown-unknown/component
# A newer Node than many distributions have, if it was installed for the tests.
for folder in "$built"/../../test-data/mcp/node_modules/node-linux-*/bin; do PATH=$folder:$PATH; done
cd "$(dirname "$0")/../../host-example"

# Another policy takes the place of the one in a composed component, in the bytes: one for each version of the contract.
LRO=$built/../../release/lro
export LRO
compose() {
    "$LRO" compose "$built/lro_policy.wasm" --files "$1" -o "$2/lro_composed.wasm"
    "$LRO" compose ../tests/frozen/policy-0.1.0.wasm --files "$1" -o "$2/lro_composed_0_1.wasm"
}
cp "$built/lro_policy.wasm" "$built/lro_reader.wasm" python/lro_filter/
mkdir -p node/component
compose directory python/lro_filter
compose memory node/component
for package in node edge; do
    (
        cd "$package"
        npm install --no-audit --no-fund --no-package-lock --loglevel=error
        CARGO_TARGET_DIR=$built/../.. npm run --silent build
    )
done
