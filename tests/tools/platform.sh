#!/bin/sh
# Builds the command for another platform, with its components compiled ahead of time, and prints the path of the program:
#     platform.sh TARGET                          such as x86_64-unknown-linux-musl
# or has cargo do something else with the same sources, compilers and linker, and prints no path:
#     platform.sh TARGET COMMAND [FLAG…]          such as check or clippy, of the command unless flags name packages
#
# Needs `make build`: the command of this machine compiles the components. For another processor, one with a compiler for it is built
# first. zig links; it and cargo-zigbuild come from PyPI. BESIDE has flags of cargo for what is built with the command, as their tests
# share its dependencies then.
set -eu

[ $# -ge 1 ] || { echo "usage: platform.sh TARGET [COMMAND [FLAG…]]" >&2; exit 2; }
platform=$1
shift
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
lro=$target/release/lro
[ -x "$lro" ] || { echo "platform.sh: $lro is missing: run make build" >&2; exit 1; }

# The oldest macOS of those that Rust supports on arm64.
MACOSX_DEPLOYMENT_TARGET=11.0
export MACOSX_DEPLOYMENT_TARGET

sh tests/tools/set-up.sh "$target/test-data" platforms >&2
rustup target list --installed | grep -qx "$platform" || rustup target add "$platform" >&2
PATH=$(cd "$target/test-data/venv-platforms/bin" && pwd):$PATH

# The components of `make build`, whose digests the compiled ones carry, instead of the same ones once more.
for component in "$target"/wasm32-unknown-unknown/component/*.wasm; do
    name=$(basename "$component" .wasm | tr '[:lower:]' '[:upper:]')
    export "${name}_COMPONENT=$(cd "$(dirname "$component")" && pwd)/$(basename "$component")"
done
# zigbuild COMMAND [FLAG…]: always with the same settings, as cargo builds anew after a change of them. Debuggers may want symbols, but a
# program that is installed does not need 16 MB of them.
zigbuild() {
    command=$1
    shift
    CARGO_PROFILE_RELEASE_STRIP=symbols cargo-zigbuild "$command" --locked --release --target "$platform" "$@"
}

# Always the same directory, for the same reason.
compiled=$target/compiled/$platform
if [ $# -gt 0 ]; then
    [ $# -gt 1 ] || set -- "$1" -p lro
    [ ! -d "$compiled" ] || export LRO_COMPILED="$(cd "$compiled" && pwd)"
    zigbuild "$@"
    exit
fi

case $platform in
    "$(uname -m)"-*) ;;
    *)
        cargo build --locked --release --features all-processors -p lro --target-dir "$target/compilers" >&2
        lro=$target/compilers/release/lro
        ;;
esac
# Files that are the same stay, as cargo goes by their time.
rm -rf "$compiled.new"
"$lro" generate compiled "$platform" "$compiled.new" >&2
if diff -rq "$compiled" "$compiled.new" > /dev/null 2>&1; then
    rm -rf "$compiled.new"
else
    rm -rf "$compiled"
    mv "$compiled.new" "$compiled"
fi
LRO_COMPILED=$(cd "$compiled" && pwd)
export LRO_COMPILED
program=$target/$platform/release/lro
case $platform in
    *-apple-darwin)
        # In the place of the frameworks of Apple, of which a linker needs only the names.
        zigbuild rustc -p lro --bin lro -- -C "link-arg=-F$PWD/host-example/dist/apple" >&2
        python3 tests/tools/apple.py "$program" "$MACOSX_DEPLOYMENT_TARGET"
        ;;
    # shellcheck disable=SC2086 # a list of flags
    *) zigbuild build -p lro --bin lro ${BESIDE-} >&2 ;;
esac
[ -e "$program" ] || program=$program.exe
echo "$program"
