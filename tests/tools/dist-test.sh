#!/bin/sh
# Installs each package of a folder from its file, as people do and offline, and uses it: dist-test.sh DIST TEST_DATA
#
# A package sees neither the sources nor a compiler: each has a folder of its own, an environment of its own, and where the program
# is static a root without anything else. Prints what was not tried, and why.
set -eu

[ $# -eq 2 ] || { echo "usage: dist-test.sh DIST TEST_DATA" >&2; exit 2; }
dist=$(cd "$1" && pwd)
data=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A newer Node than many distributions have, if it was installed for the tests.
for folder in "$data"/mcp/node_modules/node-linux-*/bin; do PATH=$folder:$PATH; done
node=$(command -v node)

fail() {
    echo "dist-test: $*" >&2
    exit 1
}

# one PATTERN: the file of the folder that it stands for
one() {
    # shellcheck disable=SC2086 # a pattern
    set -- "$dist"/$1
    [ -e "$1" ] || fail "$1 is missing"
    echo "$1"
}

say() {
    printf '%-10s %s\n' "$1" "$2"
}

# Records whose number is known, larger than what goes through.
"$node" -e 'console.log(JSON.stringify({ orders: Array.from({ length: 5000 }, (_, id) => ({ id, state: id % 7 ? "open" : "paid" })) }))' \
    > "$work/orders.json"
records=5000

# use NAME PREFIX...: offloads by the command behind the prefix, which runs without the variables of this shell, and asks
use() {
    name=$1
    shift
    handle=$("$@" offload --handle - < "$work/orders.json")
    [ "$("$@" extract "$handle" --where state=paid --count)" = '{"count":715}' ] || fail "$name: a query"
    [ "$("$@" sql "$handle" 'SELECT count(*) AS n FROM records')" = "{\"n\":$records}" ] || fail "$name: SQL"
}

# clean HOME: how to run a program with a home of its own and nothing else but the code that another one may have compiled
clean() {
    mkdir -p "$1"
    echo "env -i HOME=$1 XDG_CACHE_HOME=$work/cache PATH=/usr/bin:/bin"
}

# gateway NAME COMMAND...: a client calls a real server through the gateway of a command; the reply is a descriptor
gateway() {
    name=$1
    shift
    mkdir -p "$work/files"
    cp "$work/orders.json" "$work/files/"
    modules=$data/mcp/node_modules
    "$node" -e '
        const [node, server, files, home, cache, path, command, ...args] = process.argv.slice(1);
        const env = { HOME: home, XDG_CACHE_HOME: cache, PATH: path };
        const gateway = { command, args: [...args, "gateway", "--", node, server, files], env };
        console.log(JSON.stringify({ mcpServers: { gateway } }));
    ' "$node" "$modules/@modelcontextprotocol/server-filesystem/dist/index.js" "$work/files" "$work/home-$name" "$work/cache" "$PATH" "$@" \
        > "$work/mcp.json"
    mkdir -p "$work/home-$name"
    "$node" "$modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js" --cli --config "$work/mcp.json" \
        --server gateway --method tools/call --tool-name read_text_file --tool-arg "path=$work/files/orders.json" \
        > "$work/reply.json" 2> "$work/messages" || { cat "$work/messages" >&2; fail "$name: the gateway"; }
    grep -q 'orders.jsonl' "$work/reply.json" || fail "$name: no descriptor: $(cut -c 1-300 "$work/reply.json")"
}

# The checksums are those of the files.
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)

archive=$(one 'lro-filter-*-linux-*.tar.gz')
mkdir "$work/archive"
tar -xzf "$archive" -C "$work/archive" --strip-components 1
program=$work/archive/bin/lro
version=$("$program" --version | cut -d ' ' -f 2)
# shellcheck disable=SC2046 # a list of words
use archive $(clean "$work/home-archive") "$program"
gateway archive "$program"
for page in lro lro-gateway lro-policy-check; do [ -s "$work/archive/share/man/man1/$page.1" ] || fail "no page $page"; done
bash -n "$work/archive/share/bash-completion/completions/lro"
say archive "unpacked, offloads, answers; the gateway before a real server; $(du -m "$program" | cut -f 1) MiB"

# A program with the code of its components compiles none.
compiled=$(find "$work/cache/lro-filter-compiled" -name '*.cwasm' 2> /dev/null | wc -l)
case $archive in
    *-musl.tar.gz) [ "$compiled" -eq 0 ] || fail "the first start compiled $compiled components" ;;
    *) say archive "not tried: that a first start compiles nothing; this program brings no compiled components" ;;
esac

image=$(one 'lro-filter-*-image-*.tar')
mkdir "$work/image" "$work/image-root"
tar -xf "$image" -C "$work/image"
for blob in "$work"/image/blobs/sha256/*; do
    [ "$(sha256sum < "$blob" | cut -d ' ' -f 1)" = "$(basename "$blob")" ] || fail "image: $blob has other bytes"
done
layer=$("$node" -p 'JSON.parse(fs.readFileSync(process.argv[1]))[0].Layers[0]' "$work/image/manifest.json")
tar -xf "$work/image/$layer" -C "$work/image-root"
if [ "$(id -u)" -ne 0 ]; then
    say image "not tried: to run it; only root changes the root"
elif case $archive in *-musl.tar.gz) false ;; esac; then
    say image "not tried: to run it; this program needs a C library"
else
    [ "$(wc -c < "$image")" -le 60000000 ] || fail "the image has more than 60 MB"
    # Nothing but the program, as nobody: the folder of the data has that owner.
    use image env -i HOME=/data MCP_LRO_DIR=/data/offloads chroot --userspec=65532:65532 "$work/image-root" /usr/bin/lro
    say image "a root with the program alone, without rights; $(du -m "$image" | cut -f 1) MiB"
fi

if command -v dpkg > /dev/null 2>&1; then
    debian=$(one 'lro-filter_*.deb')
    mkdir -p "$work/debian/var/lib/dpkg/info" "$work/debian/var/lib/dpkg/updates"
    : > "$work/debian/var/lib/dpkg/status"
    package() { dpkg --root="$work/debian" --force-not-root --log=/dev/null "$@" > /dev/null; }
    package --install "$debian"
    [ "$(dpkg-query --admindir="$work/debian/var/lib/dpkg" -W -f '${Version}' lro-filter | tr '~' -)" = "$version-1" ] || fail "deb: version"
    # shellcheck disable=SC2046 # a list of words
    use deb $(clean "$work/home-deb") "$work/debian/usr/bin/lro"
    package --purge lro-filter
    [ -z "$(find "$work/debian" -path '*/var' -prune -o -type f -print)" ] || fail "deb: files stay behind"
    say deb "installed, offloads, answers, removed; $(du -m "$debian" | cut -f 1) MiB"
else
    say deb "not tried: there is no dpkg"
fi

wheel=$(one 'lro_filter-*.whl')
python3 -m venv "$work/venv"
# The library needs wasmtime, which is not here: the command needs nothing.
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
for command in lro-filter lro; do
    [ "$(env -i HOME="$work" PATH=/usr/bin:/bin "$work/venv/bin/$command" --version)" = "lro $version" ] || fail "wheel: $command"
done
ln -s "$work/venv/bin/lro" "$work/lro"
[ "$("$work/lro" --version)" = "lro $version" ] || fail "wheel: a link to lro"
# shellcheck disable=SC2046 # a list of words
use wheel $(clean "$work/home-wheel") "$work/venv/bin/lro-filter"
gateway wheel "$work/venv/bin/lro-filter"
if [ -d "$data/venv-runtimes" ]; then
    others=$("$data/venv-runtimes/bin/python" -c 'import wasmtime; print(*wasmtime.__path__)')
    PYTHONPATH=$(dirname "$others") "$work/venv/bin/python" -c '
import lro_filter, sys
value = {"orders": [{"id": number} for number in range(100_000)]}
reply = lro_filter.LROOffloader(dir=sys.argv[1]).offload_if_needed(value)
assert reply["offloaded"], reply
assert f"-{lro_filter.__version__}-" in sys.argv[2]
' "$work/python-files" "$wheel"
else
    say wheel "not tried: the library; set-up.sh TEST_DATA runtimes installs wasmtime"
fi
say wheel "installed by pip, offloads, answers; the gateway before a real server; $(du -m "$wheel" | cut -f 1) MiB"

mkdir "$work/npm"
(
    cd "$work/npm"
    echo '{ "private": true, "type": "module" }' > package.json
    npm install --offline --no-audit --no-fund --loglevel=error "$(one "lro-filter-$version.tgz")" "$(one 'lro-filter-linux-*.tgz')"
    for command in lro-filter lro; do
        [ "$(npx --offline "$command" --version)" = "lro $version" ] || fail "npm: $command"
    done
    [ "$(npx --offline lro-filter offload --handle - < "$work/orders.json" --dir "$work/npm-files" | wc -c)" -eq 27 ] || fail "npm: no handle"
    # Exit codes and messages pass.
    status=0
    npx --offline lro-filter offload --no-such-flag > messages 2>&1 || status=$?
    [ "$status" -eq 2 ] && grep -q no-such-flag messages || fail "npm: exit code $status"
    # So do streams and signals: a message comes back from the server behind the gateway, then the command ends with its process.
    node -e '
        const child = require("node:child_process").spawn("node_modules/.bin/lro-filter", ["gateway", "--", "cat"]);
        child.stdin.write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/a" }) + "\n");
        child.stdout.once("data", () => child.kill("SIGTERM"));
        child.once("close", (code, signal) => process.exit(code === 0 || signal === "SIGTERM" ? 0 : 1));
    ' || fail "npm: signals"
    node -e 'import("lro-filter").then(({ Filter }) => { if (!Filter) process.exit(1) })'
)
gateway npm "$node" "$work/npm/node_modules/.bin/lro-filter"
say npm "installed by npm, npx offloads; the gateway before a real server; the library loads"

grep -q '"name": "wasmtime"' "$(one 'lro-filter-*.cdx.json')" || fail "the bill of materials has no wasmtime"
"$node" -e 'JSON.parse(fs.readFileSync(process.argv[1]))' "$(one 'lro-filter-*.cdx.json')"
echo "dist-test: every package works"
