#!/usr/bin/env bash
# The main job on real data: the metadata of this workspace, which `cargo metadata` prints as one line of JSON, goes
# through the default policy; then one of the recipes of the descriptor runs on the files, and three questions.
set -euo pipefail
lro=${LRO:-target/release/lro}
command -v jq >/dev/null || { echo "installing jq"; apt-get update -qq && apt-get install -y -qq jq >/dev/null; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MCP_LRO_DIR=$work/offloads

cargo metadata --locked --format-version 1 >"$work/metadata.json"
echo "\$ cargo metadata --format-version 1 | lro offload --tool cargo_metadata -    # $(wc -c <"$work/metadata.json") bytes"
"$lro" offload --tool cargo_metadata --report - <"$work/metadata.json" >"$work/descriptor.json"
echo
echo "What the model sees:"
jq . "$work/descriptor.json"
echo
echo "The files:"
(cd "$MCP_LRO_DIR" && find . -type f -not -path './.*' -printf '  %M %10s  %P\n' | sort -k 3)
recipe=$(jq -r '.jq_recipes | to_entries[0].value' "$work/descriptor.json")
echo
echo "One of its recipes, the first 3 lines it prints, cut at 160 characters:"
echo "\$ $recipe"
sh -c "$recipe" | sed -n 1,3p | cut -c 1-160

handle=$(basename "$(dirname "$(jq -r '.files | to_entries[0].value' "$work/descriptor.json")")")
ask() {
    echo
    printf '$ lro extract %s' "$handle"
    for word; do
        case $word in *[!A-Za-z0-9=_-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    echo
    "$lro" extract "$handle" "$@"
}
echo
echo "Questions to the same files, answered in the sandbox, without a shell:"
ask --section packages --where 'license contains apache' --ignore-case --count
ask --section packages --group-by license --sort=-count --limit 3 --format table
ask --section packages --jq 'select(.dependencies | length > 25) | .name'
