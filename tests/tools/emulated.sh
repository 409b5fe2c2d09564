#!/bin/sh
# Runs the command of another platform under an emulator, and compares what it does with what the command of this machine does:
#     emulated.sh TARGET_DIR PLATFORM [PROGRAM]       such as target aarch64-unknown-linux-musl
#
# Needs `make build test-data`, and the program, by default that of platform.sh. Prints a line for each thing that ran, for each that
# did not and why; fails if something differs. Debian has the emulators in qemu-user and wine64. GUEST_SUITES and HOST_SUITES are the
# tests that run under the emulator, each as flags of one `cargo test`: cargo compiles what these share with the program once.
set -eu

[ $# -eq 2 ] || [ $# -eq 3 ] || { echo "usage: emulated.sh TARGET_DIR PLATFORM [PROGRAM]" >&2; exit 2; }
target=$(cd "$1" && pwd)
platform=$2
case $platform in *-windows-*) suffix=.exe ;; *) suffix= ;; esac
program=${3:-$target/$platform/release/lro$suffix}
native=$target/release/lro
data=${TEST_DATA:-$target/test-data}
[ -e "$program" ] || { echo "emulated.sh: $program is missing: run tests/tools/platform.sh $platform" >&2; exit 1; }
# A newer Node than many distributions have, if it was installed for the tests.
for folder in "$data"/mcp/node_modules/node-linux-*/bin; do [ ! -d "$folder" ] || PATH=$folder:$PATH; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
# What runs the programs of tests, and the tests that it cannot run: a line for each, with the reason.
tested=
unfit=
# An emulated compiler is slow.
MCP_LRO_LOADING_COMPILE_MS=280000
export MCP_LRO_LOADING_COMPILE_MS

say() {
    printf '%-28s %-12s %s\n' "$platform" "$1" "$2"
}

fail() {
    say "$1" "DIFFERS: $2"
    failures=$((failures + 1))
}

skip() {
    say "$1" "not run: $2"
}

# An emulator may take all the memory of a machine, and may hang.
limited() {
    (
        ulimit -v 200000000
        exec timeout -s KILL 300 "$@"
    )
}

# How a program is run, what it calls a path, and the command of a server that it starts.
case $platform in
    aarch64-*-linux-*)
        emulator=$(command -v qemu-aarch64) || { skip all "no qemu-aarch64: apt-get install qemu-user"; exit 0; }
        foreign() { limited "$emulator" "$program" "$@"; }
        path() { echo "$1"; }
        server_words() { echo "$emulator"; }
        # Some tests start their own program again. From Linux 6.7 on, the kernel executes it by the emulator in a user namespace.
        cat > "$work/registered" << 'SH'
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc || exit
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf %s ":lro:M::$magic:$mask:$1:F" > /proc/sys/fs/binfmt_misc/register || exit
shift
exec "$@"
SH
        tested="unshare --user --map-root-user --mount sh $work/registered $emulator"
        if $tested true 2> /dev/null; then
            unfit='refuses_an_unsafe_root: a namespace has one user'
        else
            tested=$emulator
            unfit=$(printf '%s: the kernel does not execute programs for this platform\n' \
                a_group_is_killed_with_what_it_has_started a_pipe_is_written_to_without_waiting modes_are_private_whatever_the_umask \
                sweeps_the_staging_of_a_killed_process_and_never_of_a_live_one a_full_disk_is_no_space_and_leaves_nothing \
                a_full_disk_is_no_failure_of_the_call a_read_only_directory_is_no_failure_of_the_call \
                a_file_size_limit_is_no_failure_of_the_call)
        fi
        unfit="$unfit
$(printf '%s: the emulator is too slow for its amount of data\n' real_data:: differential:: a_killed_writer_leaves_nothing_half_done \
                a_giant_string_streams a_million_keys_are_records the_tasks_of_the_paper \
                results_of_a_program_come_in_pages_of_any_file)"
        ;;
    x86_64-*-windows-*)
        emulator=$(command -v wine64 || ls /usr/lib/wine/wine64 2> /dev/null) || { skip all "no wine64: apt-get install wine64"; exit 0; }
        WINEPREFIX=${WINEPREFIX:-$work/wine}
        WINEDEBUG=${WINEDEBUG:--all}
        export WINEPREFIX WINEDEBUG
        [ -d "$WINEPREFIX" ] || limited "$emulator" wineboot -i > /dev/null 2>&1 || true
        # Wine before 9 lacks the one function of this library that the standard library of Rust asks for.
        system=$WINEPREFIX/drive_c/windows/system32
        if [ ! -e "$system/bcryptprimitives.dll" ]; then
            cat > "$work/random.c" << 'C'
unsigned char __stdcall SystemFunction036(void *, unsigned long);
__declspec(dllexport) int ProcessPrng(unsigned char *to, unsigned long long bytes) { return SystemFunction036(to, bytes); }
C
            python=$data/venv-platforms/bin/python
            "$python" -m ziglang cc -target x86_64-windows-gnu -shared -o "$system/bcryptprimitives.dll" "$work/random.c" -ladvapi32
        fi
        tested=$emulator
        unfit="a_reader_never_sees_a_partial_line: wine does not list a directory that is just being renamed
$(printf '%s: the Python of this machine cannot be started\n' beside_python random_queries_answer_as_in_duckdb)"
        foreign() { limited "$emulator" "$(path "$program")" "$@"; }
        path() { echo "Z:$1" | tr / '\\'; }
        server_words() { :; }
        ;;
    x86_64-*-linux-*)
        foreign() { limited "$program" "$@"; }
        path() { echo "$1"; }
        server_words() { :; }
        ;;
    *)
        skip all "no emulator is known"
        exit 0
        ;;
esac

# here ARGUMENTS, there ARGUMENTS: the command of this machine and the other, each with its directory of offloads
here() {
    MCP_LRO_DIR=$work/here "$native" "$@"
}

there() {
    MCP_LRO_DIR=$(path "$work/there") foreign "$@"
}

# same NAME WHAT: whether both have printed the same
same() {
    if [ -s "$work/one" ] && cmp -s "$work/one" "$work/other"; then
        say "$1" "ran: $2"
    else
        fail "$1" "$2: $(cmp "$work/one" "$work/other" 2>&1 | cut -c 1-200) $(tail -n 3 "$work/messages" 2> /dev/null)"
    fi
}

there --version > "$work/other" 2>&1 || { cat "$work/other" >&2; fail start "it does not start"; exit 1; }
"$native" --version > "$work/one"
tr -d '\r' < "$work/other" > "$work/plain" && mv "$work/plain" "$work/other"
same start "$(cat "$work/one")"

# compared FOLDER: the files of an offload, without what depends on its time and id
compared() {
    (
        cd "$1"
        for file in *.jsonl; do [ ! -e "$file" ] || { echo "$file"; tail -n +2 "$file"; }; done
        for file in *.txt *.bin; do [ ! -e "$file" ] || { echo "$file"; cat "$file"; }; done
    )
}

# ask NAME WHAT ARGUMENTS: both answer a question about the last offload
ask() {
    name=$1
    what=$2
    command=$3
    shift 3
    here "$command" "$handle_here" "$@" > "$work/one" 2> /dev/null || true
    there "$command" "$handle_there" "$@" 2> "$work/messages" | tr -d '\r' > "$work/other" || true
    same "$name" "$what: $(head -n 1 "$work/one" | cut -c 1-60)"
}

# Real files: JSON that is an array and an object, CSV, and text.
modules=$data/npm/node_modules
for file in emoji-datasource/emoji.json vega-datasets/data/flights-10k.json vega-datasets/data/miserables.json \
    vega-datasets/data/airports.csv vega-datasets/README.md; do
    handle_here=$(here offload --mode always --handle "$modules/$file")
    if ! handle_there=$(there offload --mode always --handle "$(path "$modules/$file")" 2> "$work/messages" | tr -d '\r') || [ -z "$handle_there" ]; then
        fail offload "$file: $(tail -n 3 "$work/messages")"
        continue
    fi
    compared "$work/here/default/$handle_here" > "$work/one"
    compared "$work/there/default/$handle_there" > "$work/other"
    same offload "$file, $(wc -c < "$work/one") bytes of records and text"
    case $file in
        */emoji.json)
            ask extract "a condition" extract --section records --where category=Symbols --count
            ask extract "a search" extract --section records --search KEYCAP --limit 5
            ask extract "a program of jq" extract --section records --jq .short_name
            ask sql "a query" sql 'SELECT category, count(*) AS n FROM records GROUP BY category ORDER BY n DESC'
            ask read "a page" read --section records --from 1000 --limit 20
            ;;
        */README.md) ask read "lines of a text" read --from 3 --limit 5 ;;
    esac
done

# client COMMAND...: calls a tool of a server, and waits for the answer
cat > "$work/client.mjs" << 'JS'
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
const [command, ...args] = process.argv.slice(2);
const server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const send = (message) => server.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "emulated", version: "1" } };
send({ id: 0, method: "initialize", params: hello });
for await (const line of createInterface({ input: server.stdout })) {
    const answer = JSON.parse(line);
    if (answer.id === 0) {
        send({ method: "notifications/initialized" });
        send({ id: 1, method: "tools/call", params: { name: "lro_files", arguments: {} } });
    } else if (answer.id === 1) {
        console.log(JSON.stringify(answer.result ?? answer.error));
        server.stdin.end();
    }
}
JS

# The server behind each gateway is `lro serve` of the same platform: it lists files, and the list is offloaded.
mkdir "$work/files"
cp "$modules"/vega-datasets/data/*.csv "$work/files"
touch -d 2026-01-01 "$work"/files/*
offloaded_by_gateways() {
    handle_here=$(ls "$work/gateway-here/default" | grep -v '^\.' | tail -n 1)
    handle_there=$(ls "$work/gateway-there/default" | grep -v '^\.' | tail -n 1)
    compared "$work/gateway-here/default/$handle_here" > "$work/one"
    compared "$work/gateway-there/default/$handle_there" > "$work/other"
    same gateway "a call of a tool of a server, $(wc -l < "$work/one") lines of records"
}
if ! command -v node > /dev/null; then
    skip gateway "no node"
else
    (
        PATH=$work:$PATH
        export MCP_LRO_DIR="$work/gateway-here"
        node "$work/client.mjs" "$native" gateway --mode always --isolate false -- "$native" serve "$work/files" > "$work/answer-here" 2> "$work/messages-here"
    ) || true
    (
        export MCP_LRO_DIR="$(path "$work/gateway-there")"
        ulimit -v 200000000
        # shellcheck disable=SC2086 # an emulator is a word or none
        timeout -s KILL 300 node "$work/client.mjs" ${emulator-} "$(path "$program")" gateway --mode always --isolate false -- \
            $(server_words) "$(path "$program")" serve "$(path "$work/files")" > "$work/answer-there" 2> "$work/messages-there"
    ) || true
    if [ -d "$work/gateway-there/default" ]; then
        offloaded_by_gateways
    else
        fail gateway "$(head -c 300 "$work/answer-there") $(tail -n 5 "$work/messages-there")"
    fi
fi

# uncached NAME ARGUMENTS: the other command, with an empty place of this name for what it compiles. The suites do not get the
# variable: zig would move its cache and cargo-zigbuild its linker there, and cargo build everything in C, and after it, once more.
uncached() (
    XDG_CACHE_HOME=$(path "$work/$1")
    export XDG_CACHE_HOME
    shift
    there "$@"
)

# A policy that is not built in is compiled in a child of the command, or in itself where the child is not executed.
policy=$target/wasm32-unknown-unknown/component/lro_redact.wasm
orders=$modules/vega-datasets/data/cars.json
if ! uncached cache --log warn offload --policy "$(path "$policy")" --mode always --handle "$(path "$orders")" > "$work/other" 2> "$work/messages"; then
    fail policy "$(tail -n 3 "$work/messages")"
elif grep -q 'does not execute the compiler' "$work/messages"; then
    say policy "ran: compiled without a child"
else
    say policy "ran: compiled by a child"
    uncached another-cache offload --policy "$(path "$policy")" --loading-compile-memory-bytes 20000000 --handle "$(path "$orders")" > /dev/null 2> "$work/messages" || true
    if grep -q 'bytes of memory' "$work/messages"; then say policy "ran: a child is limited to its memory"; else fail policy "memory: $(cat "$work/messages")"; fi
fi

# suites FLAG…: the tests of crates that these flags of cargo name, without those that do not fit the emulator
suites() {
    # shellcheck disable=SC2046 # a list of flags
    if env "CARGO_TARGET_$(echo "$platform" | tr 'a-z-' 'A-Z_')_RUNNER=timeout -s KILL 900 $tested" \
        sh "$(dirname "$0")/platform.sh" "$platform" test --no-fail-fast "$@" \
        -- $(echo "$unfit" | awk -F ': ' 'NF { print "--skip", $1 }') > "$work/suites" 2>&1; then
        say suites "ran: $(grep -c '^test .* ok$' "$work/suites") tests of$(echo " $*" | sed 's/ -p / /g; s/ --[a-z]*//g')"
    else
        grep -E -A 12 '^---- |^error|panicked' "$work/suites" >&2 || tail -n 20 "$work/suites" >&2
        fail suites "$(grep -E '^test .* FAILED$|^error' "$work/suites" | head -n 20)"
    fi
}
if [ -z "$tested" ] || [ -z "${GUEST_SUITES:-}" ] || [ -z "${HOST_SUITES:-}" ]; then
    skip suites "they run with an emulator, by make emulated"
else
    ulimit -v 200000000
    # shellcheck disable=SC2086 # lists of flags
    suites $GUEST_SUITES
    # shellcheck disable=SC2086
    suites $HOST_SUITES
    [ -z "$unfit" ] || echo "$unfit" | while IFS= read -r line; do skip suites "$line"; done
fi

there self-check 2>&1 | tr -d '\r' > "$work/checks" || true
while IFS= read -r line; do say self-check "$line"; done < "$work/checks"
[ "$failures" -eq 0 ] || { echo "emulated.sh: $failures differ" >&2; exit 1; }
