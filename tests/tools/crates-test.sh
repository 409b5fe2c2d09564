#!/bin/sh
# Installs the command from its crates as `cargo install` does from a registry, offline, and uses it: crates-test.sh CRATES [DIST]
#
# CRATES is what `make crates` has made. With DIST, the archives of `make dist`, and cargo-binstall in PATH, installs those by it, too;
# the crates then have to be made with RELEASE_URL=https://127.0.0.1:8443. Compiles all that the command needs: 15 minutes on two cores.
set -eu

[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: crates-test.sh CRATES [DIST]" >&2; exit 2; }
crates=$(cd "$1" && pwd)
dist=${2:+$(cd "$2" && pwd)}
work=$(mktemp -d)
server=
trap 'rm -rf "$work"; [ -z "$server" ] || kill "$server"' EXIT

fail() {
    echo "crates-test: $*" >&2
    exit 1
}

# use NAME PROGRAM: offloads and asks, without the variables of this shell
use() {
    program="env -i HOME=$work/home-$1 PATH=/usr/bin:/bin $2"
    mkdir "$work/home-$1"
    handle=$(seq 20000 | sed 's/.*/{"id":&,"state":"open"}/' | $program offload --handle -)
    [ "$($program extract "$handle" --where id=700 --count)" = '{"count":1}' ] || fail "$1: a query"
    [ "$($program sql "$handle" 'SELECT count(*) AS n FROM records')" = '{"n":20000}' ] || fail "$1: SQL"
    echo "crates-test: installed by $1, offloads, answers"
}

if [ -n "$dist" ] && command -v cargo-binstall > /dev/null 2>&1; then
    # It asks by HTTPS alone, and takes no certificate that signs itself.
    certificate() {
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 "$@" 2> /dev/null
    }
    certificate -subj /CN=authority -keyout "$work/authority.key" -out "$work/authority.pem"
    certificate -subj /CN=127.0.0.1 -keyout "$work/key.pem" -out "$work/certificate.pem" -CA "$work/authority.pem" \
        -CAkey "$work/authority.key" -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE
    python3 -c '
import functools, http.server, ssl, sys
folder, certificate, key = sys.argv[1:]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8443), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()' "$dist" "$work/certificate.pem" "$work/key.pem" 2> "$work/requests" &
    server=$!
    CARGO_HOME=$work/cargo cargo-binstall lro --manifest-path "$crates/workspace/lro" --root "$work/binstall" --no-confirm \
        --disable-strategies compile,quick-install --disable-telemetry --root-certificates "$work/authority.pem" \
        || { cat "$work/requests" >&2; fail "cargo binstall"; }
    use binstall "$work/binstall/bin/lro"
else
    echo "crates-test: not tried: cargo binstall; it takes DIST, and cargo-binstall in PATH"
fi

# What stands for the registry: a folder with the crates of others, and ours out of their packages.
cargo vendor --quiet --locked --versioned-dirs --manifest-path "$crates/workspace/Cargo.toml" "$work/registry" > /dev/null
for crate in "$crates"/*.crate; do
    tar -xzf "$crate" -C "$work/registry"
    printf '{"files":{},"package":"%s"}' "$(sha256sum < "$crate" | cut -d ' ' -f 1)" \
        > "$work/registry/$(basename "$crate" .crate)/.cargo-checksum.json"
done
cd "$work"
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$work/target} cargo install --locked --offline lro --root "$work/install" \
    --config 'source.crates-io.replace-with="packed"' --config "source.packed.directory=\"$work/registry\""
use install "$work/install/bin/lro"
