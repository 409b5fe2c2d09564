#!/bin/sh
# Runs the hooks in the real agents, with a model on this machine: agents.sh TARGET_DIR [AGENT...]
set -eu

[ $# -ge 1 ] || { echo "usage: agents.sh TARGET_DIR [AGENT...]" >&2; exit 2; }
target=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")"
# Some agents need a newer Node than many distributions have.
for folder in "$target"/test-data/mcp/node_modules/node-linux-*/bin; do PATH=$folder:$PATH; done
LRO=$target/release/lro
TEST_DATA=$target/test-data
export PATH LRO TEST_DATA
node agents.mjs "$@"
