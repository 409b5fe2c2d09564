#!/bin/sh
# Pushes the contract, as WIT packages, and the components to a registry: publish.sh TARGET_DIR REGISTRY
#
# The names are those that `wkg` expects: NAMESPACE/NAME, with the version as the tag.
set -eu

[ $# -eq 2 ] || { echo "usage: publish.sh TARGET_DIR REGISTRY, such as publish.sh target 127.0.0.1:5000" >&2; exit 2; }
target=$(cd "$1" && pwd)
registry=$2
cd "$(dirname "$0")/../.."
lro=$target/release/lro
components=$target/wasm32-unknown-unknown/component
version=$(sed -n '/^\[workspace\.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
package=$(mktemp)
trap 'rm -f "$package"' EXIT

for folder in wit/[0-9]* wit wit/document; do
    name=$("$target/release/examples/wit-package" "$package" "$folder"/*.wit)
    "$lro" policy push "$package" "oci://$registry/$name" --json
done
for component in policy redact extract extract-sql document-text; do
    file=$components/lro_$(echo "$component" | tr - _).wasm
    "$lro" policy push "$file" "oci://$registry/lro/$component:$version" --json
done
