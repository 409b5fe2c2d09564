#!/bin/sh
# Changes what decides about a result, in one place after another, and runs the tests of its crate: mutants.sh TARGET_DIR
#
# tests/mutants.toml says what is changed. Exits with status 2 when the tests pass with a change, and names the change.
set -eu

[ $# -eq 1 ] || { echo "usage: mutants.sh TARGET_DIR" >&2; exit 2; }
mkdir -p "$1/mutants"
work=$(cd "$1/mutants" && pwd)
cargo install cargo-mutants --locked --version 27.1.0 --root "$work"
# Each copy of the sources has a target directory of its own.
unset CARGO_TARGET_DIR
# A few random cases are enough: a change that only many of them find would be found by chance.
export PROPTEST_CASES=32 PROPTEST_MAX_SHRINK_ITERS=0 CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_TEST_OPT_LEVEL=1
status=0
"$work/bin/cargo-mutants" mutants --config tests/mutants.toml --output "$work" --jobs "$(nproc)" --level error --no-times --colors never -- --locked --tests || status=$?
# 3: a change made a loop endless, which the tests notice as well.
[ "$status" -eq 3 ] || exit "$status"
