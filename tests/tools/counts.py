"""Counts the instructions of hot paths, and compares them with those of tests/counts.txt: counts.py PROGRAM...

A program without arguments prints each of its paths and a number of rounds, and runs with `PATH ROUNDS`. Cachegrind counts a run of one
round and one of so many more: the difference is that of the rounds alone. It shows programs the same processor on every machine of
x86-64 that has AVX2, and the compiler is fixed in rust-toolchain.toml, so that counts repeat.

With LRO_WRITE_COUNTS set, the file is written anew.
"""

import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

COUNTS = pathlib.Path(__file__).parent.parent / "counts.txt"
WRITE = "LRO_WRITE_COUNTS"

# The processor whose instructions are in the file.
MACHINE = "x86_64"

# Whether a large buffer is new memory, or has to be cleared, is not to depend on what was freed before.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "32768"}

# Most by which a count may grow, as a share of it. Two runs, and two builds of one source, differ by less than a thousandth; a
# change elsewhere moves code between the units that the compiler optimizes, and with it what is inlined.
TOLERANCE = 0.02


def instructions(program, path, rounds, environment):
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", program, path, str(rounds)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = re.search(r"I +refs: +([\d,]+)", run.stderr)
    if run.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}:\n{run.stderr}")
    return int(found[1].replace(",", ""))


def counted(programs):
    """The instructions of one round of each path."""
    counts = {}
    with tempfile.TemporaryDirectory() as cache:
        # The first run compiles components for the processor that cachegrind shows, and is not counted.
        environment = {**os.environ, **MALLOC, "XDG_CACHE_HOME": cache}
        for program in programs:
            listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
            for path, rounds in (line.split() for line in listed.splitlines()):
                instructions(program, path, 0, environment)
                once, more = (instructions(program, path, number, environment) for number in (1, 1 + int(rounds)))
                counts[path] = (more - once) // int(rounds)
    return counts


def written(counts):
    head = f"# Instructions of one round of each hot path on {MACHINE}. `{WRITE}=1 make counts` writes this file.\n"
    return head + "".join(f"{path:<16}{count:>14}\n" for path, count in counts.items())


def read():
    lines = (line.split() for line in COUNTS.read_text().splitlines() if not line.startswith("#"))
    return {path: int(count) for path, count in lines}


def differences(known, counts):
    """What is wrong with the counts, a line each."""
    for path in sorted(known.keys() | counts.keys()):
        before, now = known.get(path), counts.get(path)
        if before is None or now is None:
            yield f"{path}: {'not in the file' if before is None else 'no program has it'}"
        elif now / before - 1 > TOLERANCE:
            yield f"{path}: {now / before - 1:+.1%}, {before:,} instructions before and {now:,} now"


def fewer(known, counts):
    """The paths that have become shorter than the file says."""
    return [path for path, now in counts.items() if path in known and 1 - now / known[path] > TOLERANCE]


def main(programs):
    if platform.machine() != MACHINE:
        print(f"counts: SKIPPED: the counts are of {MACHINE}, and this is {platform.machine()}")
        return
    counts = counted(programs)
    known = {} if os.environ.get(WRITE) else read()
    for path, count in counts.items():
        compared = f"{count / known[path] - 1:+8.2%}" if path in known else ""
        print(f"{path:<16}{count:>14,} instructions {compared}")
    if os.environ.get(WRITE):
        COUNTS.write_text(written(counts))
        return
    hint = f"write {COUNTS.name} anew: {WRITE}=1 make counts"
    if gained := fewer(known, counts):
        print(f"fewer than before: {', '.join(gained)}; so that they stay so, {hint}")
    if found := list(differences(known, counts)):
        sys.exit("\n".join([f"beyond {TOLERANCE:.0%}:", *found, f"if that is meant, {hint}"]))


main(sys.argv[1:])
