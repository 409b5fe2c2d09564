#!/bin/sh
# Runs every fuzz target for some time, 60 seconds each by default: fuzz.sh TARGET_DIR [SECONDS] [NAME...]
#
# Needs a C++ compiler for libFuzzer, but neither nightly nor cargo-fuzz. The inputs of tests/fuzz/corpus run first, so
# they are regression tests too; new inputs are kept in TARGET_DIR/fuzz/corpus for the next run. Exits with status 1
# when a target fails, and names the input that made it fail.
set -eu

[ $# -ge 1 ] || { echo "usage: fuzz.sh TARGET_DIR [SECONDS] [NAME...]" >&2; exit 2; }
mkdir -p "$1/fuzz"
work=$(cd "$1/fuzz" && pwd)
seconds=${2:-60}
[ $# -gt 2 ] && shift 2 || set --
cd "$(dirname "$0")/../fuzz"

# The flags of cargo-fuzz, except the address sanitizer, which needs nightly: there is almost no unsafe code here.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks"
export RUSTFLAGS

# Longest input, in bytes, and longest time for one, in seconds.
INPUT_BYTES_MAX=4096
INPUT_SECONDS_MAX=20
MEMORY_MIB_MAX=2048

host=$(rustc -vV | sed -n 's/^host: //p')
[ $# -gt 0 ] || set -- $(sed -n '/^\[\[bin\]\]/,$s/^name = "\(.*\)"/\1/p' Cargo.toml)
# With --target, the flags are for the targets alone and not for build scripts.
CARGO_TARGET_DIR=$work cargo build --locked --quiet --release --target "$host" --bins

# Runs one target, prints what came of it, and fails when it does.
run() {
    name=$1
    mkdir -p "$work/corpus/$name" "corpus/$name" "$work/crashes"
    log=$work/$name.log
    failed=
    "$work/$host/release/$name" "$work/corpus/$name" "corpus/$name" -max_total_time="$seconds" \
        -max_len=$INPUT_BYTES_MAX -timeout=$INPUT_SECONDS_MAX -rss_limit_mb=$MEMORY_MIB_MAX -print_final_stats=1 \
        -artifact_prefix="$work/crashes/$name-" > "$log" 2>&1 || failed=yes
    awk -v name="$name" '
        / cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1)
                   if ($i == "corp:") corp = $(i + 1) } }
        /^stat::number_of_executed_units/ { runs = $2 }
        /^stat::average_exec_per_sec/ { speed = $2 }
        END { sub("/.*", "", corp); printf "%-10s %12d %10d %10d %10d %8d\n", name, runs, speed, cov, ft, corp }' "$log"
    [ "$failed" ] || return 0
    echo "fuzz: $name failed; the log is $log" >&2
    sed -n 's/.*Test unit written to /input: /p' "$log" >&2
    sed -n '/panicked at/,/^stack backtrace/p; /^SUMMARY/p' "$log" | head -n 20 >&2
    return 1
}

printf '%-10s %12s %10s %10s %10s %8s\n' target runs runs/s coverage features inputs
status=0
# As many at a time as there are processors.
while [ $# -gt 0 ]; do
    running=
    for _ in $(seq "$(nproc)"); do
        [ $# -gt 0 ] || break
        run "$1" &
        running="$running $!"
        shift
    done
    for one in $running; do
        wait "$one" || status=1
    done
done
exit $status
