#!/usr/bin/env bash
# Offloads real data: the metadata of this workspace, one line of JSON from `cargo metadata`, goes through the default
# policy; then a recipe of the descriptor and three queries run on the files.
set -euo pipefail
lro=${LRO:-target/release/lro}
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

# The same between a real client and a real server: the protocol's inspector calls a tool of the reference file server
# through the gateway. Without the gateway the connection drops, because the answer is longer than clients read.
modules=${TEST_DATA:-target/test-data}/mcp/node_modules
data=${TEST_DATA:-target/test-data}/npm/node_modules/vega-datasets/data
for folder in "$PWD/$modules"/node-linux-*/bin; do PATH=$folder:$PATH; done
files=$work/files
mkdir "$files"
cp "$data/flights-200k.json" "$files"
server="node $PWD/$modules/@modelcontextprotocol/server-filesystem/dist/index.js $files"
# A client's configuration, with and without the gateway in front of the server's command.
jq -n --arg server "$server" --arg lro "$(realpath "$lro")" --arg dir "$MCP_LRO_DIR" '($server | split(" ")) as $command | {
    mcpServers: {
        direct: { command: $command[0], args: $command[1:] },
        gateway: { command: $lro, args: (["gateway", "--log", "info", "--"] + $command), env: { MCP_LRO_DIR: $dir } }
    }
}' >"$work/mcp.json"
inspect() {
    node "$modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js" --cli \
        --config "$work/mcp.json" --server "$@" 2>"$work/messages"
}
call=(--method tools/call --tool-name read_text_file --tool-arg "path=$files/flights-200k.json")
echo
echo "A client and a server, $(wc -c <"$files/flights-200k.json") bytes of data between them. The client calls the server itself:"
inspect direct "${call[@]}" | cut -c 1-160 || grep -o '{"error.*' "$work/messages"
echo "The same behind \`lro gateway -- node server-filesystem DIR\`:"
inspect gateway "${call[@]}" >"$work/reply.json"
jq -r '.content[0].text' "$work/reply.json" | jq '{offloaded, handle, summary, schemas, guidance}'
grep -o 'tokens_saved=[0-9]*' "$work/messages" | sed 's/tokens_saved=/tokens saved: /'
handle=$(jq -r '.content[0].text | fromjson | .handle' "$work/reply.json")
echo
echo "The model's next call, how many flights were more than two hours late:"
echo "\$ lro_extract {\"handle\": \"$handle\", \"section\": \"records\", \"where\": [{\"field\": \"delay\", \"op\": \"gt\", \"value\": 120}], \"count\": true}"
inspect gateway --method tools/call --tool-name lro_extract --tool-arg "handle=$handle" --tool-arg section=records \
    --tool-arg 'where=[{"field":"delay","op":"gt","value":120}]' --tool-arg count=true >"$work/answer.json"
jq -c .structuredContent "$work/answer.json"
