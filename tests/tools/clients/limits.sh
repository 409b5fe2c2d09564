#!/bin/sh
# Compares what packages of clients say and do with what the gateway takes them for: limits.sh TARGET_DIR
set -eu

[ $# -eq 1 ] || { echo "usage: limits.sh TARGET_DIR" >&2; exit 2; }
target=$(cd "$1" && pwd)
cd "$(dirname "$0")"
# The SDK needs a newer Node than many distributions have.
for folder in "$target"/test-data/mcp/node_modules/node-linux-*/bin; do PATH=$folder:$PATH; done
LRO=$target/release/lro
TEST_DATA=$target/test-data
export PATH LRO TEST_DATA
node limits.mjs
"$TEST_DATA/venv-clients/bin/python" adapters.py
