#!/bin/sh
# Runs the policies in other runtimes and tools: runtimes.sh TARGET_DIR
#
# Builds the example policies, runs the tests of the packages and of these policies, starts each example as a new user
# would, from a fresh directory, and prints the table of the runtimes.
set -eu

[ $# -eq 1 ] || { echo "usage: runtimes.sh TARGET_DIR" >&2; exit 2; }
target=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
root=$(pwd)
python=$target/test-data/venv-runtimes/bin/python
fresh=$(mktemp -d)
edge=
trap '[ -z "$edge" ] || kill "$edge"; rm -rf "$fresh"' EXIT
# Some builds and tests need a newer Node than many distributions have.
for folder in "$target"/test-data/mcp/node_modules/node-linux-*/bin; do PATH=$folder:$PATH; done
PATH=$target/release:$target/test-data/cargo-component/bin:$PATH
LRO=$target/release/lro
CARGO_TARGET_DIR=$target
export PATH LRO CARGO_TARGET_DIR

step() {
    printf '\n== %s\n' "$*"
}

step "The policies, by cargo component and for wasm32-wasip2"
cargo build --locked --profile component --target wasm32-unknown-unknown -p lro-test-policies -p lro-test-tools
cargo component build --locked --profile component -p lro-policy -p lro-redact
cargo build --locked --profile component --target wasm32-wasip2 -p lro-policy -p lro-redact

step "A program that embeds the host, in a directory of its own"
mkdir "$fresh/embedded"
cp tests/embed/program.rs Cargo.lock "$fresh/embedded"
cat > "$fresh/embedded/Cargo.toml" << END
[package]
name = "embedded"
edition = "2024"
[workspace]
[[bin]]
name = "embedded"
path = "program.rs"
[dependencies]
lro-host = { path = "$root/host-example/host" }
END
(cd "$fresh/embedded" && cargo check --offline --target-dir "$target/embedded")

step "A policy from the template"
cp -rL guest/template "$fresh/my-policy"
(
    cd "$fresh/my-policy"
    cargo build --release --target wasm32-unknown-unknown
    cargo test
)

step "A policy in JavaScript"
(cd guest/javascript && npm install --no-audit --no-fund --no-package-lock --loglevel=error && npm run build && npm test)

step "The package for Python"
(cd host-example/python && "$python" -m unittest discover -s tests)
python3 -m venv "$fresh/env"
"$fresh/env/bin/pip" install --quiet "$root/host-example/python[fastmcp]"
(cd "$fresh" && env/bin/python "$root/host-example/python/examples/client.py")

step "The package for Node"
(cd host-example/node && npm test)
mkdir "$fresh/server"
cp host-example/node/examples/*.js "$fresh/server"
(
    cd "$fresh/server"
    echo '{ "type": "module" }' > package.json
    npm install --no-audit --no-fund --loglevel=error "$root/host-example/node" \
        @modelcontextprotocol/server@2.4.0 @modelcontextprotocol/client@2.4.0
    node client.js offloads
)

step "The other estimate of tokens"
node --test tests/tools/tokens/estimate.test.mjs

step "The worker for workerd"
(cd host-example/edge && npm test)
LRO_EDGE_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export LRO_EDGE_TOKEN
(cd host-example/edge && exec ./node_modules/.bin/workerd serve config.capnp) &
edge=$!
printf '{"content":[{"type":"text","text":"%s"}]}' "$(seq -s '\n' 1 20000)" > "$fresh/result.json"
curl --silent --show-error --retry 20 --retry-connrefused --retry-delay 1 \
    'http://127.0.0.1:8809/filter?tool=search' --data-binary "@$fresh/result.json" \
    --header "Authorization: Bearer $LRO_EDGE_TOKEN"
echo

step "Tools for ACT"
"$python" tests/runtimes/act_test.py "$target"

step "The gateway in wasmCloud"
"$python" tests/runtimes/wasmcloud_test.py "$target"

step "One component in every runtime"
"$python" tests/runtimes/table.py "$target"
