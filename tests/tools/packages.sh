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
cp "$built/lro_policy.wasm" "$built/lro_reader.wasm" python/lro_filter/
"$LRO" compose "$built/lro_policy.wasm" --files directory -o python/lro_filter/lro_composed.wasm
"$LRO" compose ../tests/frozen/policy-0.1.0.wasm --files directory -o python/lro_filter/lro_composed_0_1.wasm
mkdir -p node/component
cp python/lro_filter/lro_composed.wasm python/lro_filter/lro_composed_0_1.wasm node/component/
for package in node edge; do
    (
        cd "$package"
        npm install --no-audit --no-fund --no-package-lock --loglevel=error
        CARGO_TARGET_DIR=$built/../.. npm run --silent build
    )
done
