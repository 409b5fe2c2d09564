#!/bin/sh
# Runs the unit tests beside unsafe code in the crates of plain Rust in Miri, which finds undefined behaviour: they compare that code
# with safe code. Installs a nightly toolchain with Miri.
#     miri.sh TARGET_DIR
set -eu

[ $# -eq 1 ] || { echo "usage: miri.sh TARGET_DIR" >&2; exit 2; }
rustup toolchain install nightly --profile minimal --component miri,rust-src --no-self-update
# A few random cases take as long there as thousands elsewhere. Miri has no access to files otherwise.
export PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR="$1/miri"
cargo +nightly miri test --locked --lib -p lro-json -p lro-jsonl -p lro-text -p lro-mcp
