#!/bin/sh
# Builds the command lro for one target, and prints the path of the program: platform.sh TARGET [COMMAND]
#
# COMMAND is what cargo does instead, such as check or clippy, and nothing is printed then. Linkers and C compilers for other
# targets are those of zig, from PyPI, which is installed at first use.
set -eu

[ $# -ge 1 ] || { echo "usage: $0 TARGET [COMMAND]" >&2; exit 2; }
cd "$(dirname "$0")/../.."
target=$1
command=${2:-zigbuild}
out=${CARGO_TARGET_DIR:-target}
tools=$out/test-data/venv-zig

# Released versions that build together.
if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check cargo-zigbuild==0.24.1 ziglang==0.17.1 >&2
fi
PATH=$(cd "$tools/bin" && pwd):$PATH
rustup target list --installed | grep -qx "$target" || rustup target add "$target" >&2

case $command in
zigbuild) cargo zigbuild --locked --release --target "$target" -p lro >&2 ;;
*) exec cargo-zigbuild "$command" --locked --release --target "$target" -p lro ;;
esac

for name in lro lro.exe; do
    program=$out/$target/release/$name
    if [ -f "$program" ]; then
        echo "$program"
    fi
done
