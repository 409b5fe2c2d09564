#!/usr/bin/env bash
# The official conformance suite against a server, directly, through the gateway, and through the gateway that is a component in
# `wasmtime serve`:
#
#     conformance.sh TARGET_DIR [NODE_MODULES]
#
# Passes when every check has the same result all ways, and where the gateway translates between a client and a server of
# different generations of the protocol, when those alone differ that the server does not offer. Takes the programs from CONFORMANCE_SERVER and LRO, or else
# from TARGET_DIR/release, `wasmtime` and the suite from where set-up.sh installs them, or the suite from NODE_MODULES.
set -euo pipefail

REVISIONS="2025-11-25 2026-07-28"
START_SECONDS=30
RUN_SECONDS=600

[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: conformance.sh TARGET_DIR [NODE_MODULES]" >&2; exit 2; }
server=${CONFORMANCE_SERVER:-$1/release/lro-conformance}
lro=${LRO:-$1/release/lro}
modules=${2:-$1/test-data/mcp/node_modules}
wasmtime=$1/test-data/wasmtime
policy=$1/wasm32-unknown-unknown/component/lro_policy.wasm
suite=$modules/@modelcontextprotocol/conformance/dist/index.js
for file in "$server" "$lro" "$wasmtime" "$policy" "$suite"; do
    [ -e "$file" ] || { echo "conformance: $file is missing" >&2; exit 2; }
done
# The suite needs a newer Node than many systems have; set-up.sh installs one.
for folder in "$modules"/node-linux-*/bin; do PATH=$folder:$PATH; done

work=$(mktemp -d)
children=()
clean_up() {
    if [ ${#children[@]} -gt 0 ]; then
        kill "${children[@]}" 2> /dev/null || true
        for _ in {1..50}; do
            kill -0 "${children[@]}" 2> /dev/null || break
            sleep 0.1
        done
        kill -KILL "${children[@]}" 2> /dev/null || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM
export MCP_LRO_DIR=$work/offloads

# The servers read 7, and end when it closes: when this script, which alone holds 9, ends in any way. 8 is only needed
# because a pipe does not open at one end alone.
mkfifo "$work/input"
exec 8<> "$work/input" 9> "$work/input" 7< "$work/input" 8>&-

# start NAME COMMAND...: starts a server and leaves its address in $address, its process in $started
start() {
    local name=$1 deadline=$((SECONDS + START_SECONDS))
    shift
    : > "$work/$name.log"
    "$@" <&7 7<&- 9>&- > "$work/$name.log" 2>&1 &
    started=$!
    children+=("$started")
    until address=$(grep -o -m 1 -E '(listening|Serving HTTP) on http://[^ ]*' "$work/$name.log"); do
        if ! kill -0 "$started" 2> /dev/null || [ "$SECONDS" -ge "$deadline" ]; then
            echo "conformance: the $name did not start" >&2
            cat "$work/$name.log" >&2
            exit 1
        fi
        sleep 0.05
    done
    address=${address#* on }
}

# run WAY REVISION ADDRESS: runs the suite and writes WAY-REVISION.json, a list of its checks
run() {
    local name=$1-$2
    timeout "$RUN_SECONDS" node "$suite" server --url "$3" --requirements "$2" --output-dir "$work/$name" \
        < /dev/null 7<&- 9>&- > "$work/$name.log" 2>&1 &
    children+=($!)
    # A failing check makes the suite fail. The suite ran to its end if it reports how many checks passed.
    wait $! || true
    unset 'children[-1]'
    if ! grep -q '^Total: [1-9]' "$work/$name.log"; then
        echo "conformance: nothing passed on $2, $1:" >&2
        tail -n 20 "$work/$name.log" >&2
        exit 1
    fi
    find "$work/$name" -name checks.json -exec jq '
        (input_filename | split("/")[-2] | sub("^server-"; "") | sub("-[0-9]+-[0-9]+-[0-9]+T[-0-9]+Z$"; "")) as $scenario
        | .[] | select(.status != "INFO") | {scenario: $scenario, id, name, status, errorMessage}' {} + \
        | jq --slurp . > "$work/$name.json"
}

# What two lists of checks, $direct and $gateway, come to, and where they differ. A check is known by its place among those
# of the same scenario, identifier and name.
comparison='
def known: group_by([.scenario, .id, .name]) | map(to_entries[])
    | INDEX("\(.value.scenario) \(.value.id) \(.value.name) \(.key)") | map_values(.value);
def counts: map(.status) | "\(map(select(. == "SUCCESS")) | length) / \(map(select(. == "FAILURE")) | length)";
($direct[0] | known) as $expected | ($gateway[0] | known) as $actual
| {
    direct: ($direct[0] | counts),
    gateway: ($gateway[0] | counts),
    differences: [
        ($expected + $actual | keys[]) as $key
        | select($expected[$key].status != $actual[$key].status)
        | ($actual[$key] // $expected[$key]) + {
            before: ($expected[$key].status // "not checked"),
            after: ($actual[$key].status // "not checked"),
            reason: $actual[$key].errorMessage
        }
    ]
}'

start server "$server"
upstream=$address
for revision in $REVISIONS; do run direct "$revision" "$upstream"; done
start gateway "$lro" gateway --upstream "$upstream" --listen 127.0.0.1:0
for revision in $REVISIONS; do run gateway "$revision" "$address"; done
"$lro" compose "$policy" -o "$work/edge.wasm" --http edge --files directory > "$work/compose.log"
mkdir -m 700 "$work/kept"
start component "$wasmtime" serve --addr 127.0.0.1:0 -S cli --dir "$work/kept::/" --env LRO_UPSTREAM="$upstream" "$work/edge.wasm"
for revision in $REVISIONS; do run component "$revision" "$address"; done

# Clients of each generation before a server that serves the other alone.
start modern "$server" --only modern
start translated-2025-11-25 "$lro" gateway --upstream "$address" --listen 127.0.0.1:0
run translated 2025-11-25 "$address"
start legacy "$server" --only legacy
start translated-2026-07-28 "$lro" gateway --upstream "$address" --listen 127.0.0.1:0 --translate always
run translated 2026-07-28 "$address"

# What the server offers only in sessions: streams to resume. And only without: several questions at once or in turn, states that
# a client carries, names of questions, and tasks.
in_sessions="server-sse-multiple-streams server-sse-polling"
without_sessions="input-required-result-basic-elicitation input-required-result-capability-check
    input-required-result-ignore-extra-params input-required-result-multi-round
    input-required-result-multiple-input-requests input-required-result-non-tool-request
    input-required-result-request-state input-required-result-tampered-state server-sse-multiple-streams
    tasks-capability-negotiation tasks-dispatch-and-envelope tasks-lifecycle tasks-mrtr-composition tasks-mrtr-input
    tasks-request-headers tasks-request-state-removal tasks-wire-fields"
# What a server of 2025-11-25 does not know: arguments that headers repeat.
lacking="http-custom-header-server-validation"

row='| %-15s | %-10s | %-16s | %-17s | %s\n'
# shellcheck disable=SC2059 # the format is a row
{
    printf "$row" 'requirement set' 'gateway' 'direct pass/fail' 'gateway pass/fail' 'scenarios that differ'
    printf "$row" --------------- ---------- ---------------- ----------------- ---------------------
}
verdict=0

# compare WAY REVISION [SCENARIO...]: prints how the way differs from the direct one. Just these scenarios may.
compare() {
    local way=$1 revision=$2 result=$work/$1-$2-result.json differ expected
    shift 2
    jq -n --slurpfile direct "$work/direct-$revision.json" --slurpfile gateway "$work/$way-$revision.json" \
        "$comparison" > "$result"
    differ=$(jq -r '[.differences[].scenario] | unique | join(" ")' "$result")
    expected=$(printf '%s\n' "$@" | sort | xargs)
    # shellcheck disable=SC2059
    printf "$row" "$revision" "$way" "$(jq -r .direct "$result")" "$(jq -r .gateway "$result")" "${differ:-none}"
    [ "$differ" != "$expected" ] || return 0
    verdict=1
    printf '\n%s %s: these differ: %s\nand these may: %s\n' "$revision" "$way" "${differ:-none}" "${expected:-none}"
    jq -r '.differences[]
        | "\n\(.scenario): \(.name)\n    \(.before) directly, \(.after) through the gateway",
        (.reason // empty | "    \(.)")' "$result"
}
for way in gateway component; do
    for revision in $REVISIONS; do compare "$way" "$revision"; done
done
# shellcheck disable=SC2086 # a word for each scenario
compare translated 2025-11-25 $in_sessions
# shellcheck disable=SC2086
compare translated 2026-07-28 $without_sessions $lacking
exit $verdict
