"""Compares two files of `make bench`: bench.py BASE NEW

Times of two runs differ with the machine, so ratios are compared: ours to the baseline of the same run. How much of a ratio is noise is
in its samples. The jobs of a row run in turn, so its rounds are drawn with replacement, 2,000 times from each file, and each draw gives a
ratio of medians. A row is worse if its ratio in NEW is greater than in BASE by more than SLACK in 99 of 100 draws.

Ends with status 1 if a row is worse. Values without a baseline, such as memory, and rows of fewer than three rounds are compared by eye.
"""

import json
import random
import sys
from statistics import median

DRAWS = 2_000
# Draws in which a row that is worse may be no worse.
DOUBT = 0.01
# Rounds of which noise can be told.
ROUNDS_MIN = 3
# What two runs of one build may differ by beyond the noise within each: where code and data happen to lie, and who else runs.
SLACK = 0.10


def rows(path):
    with open(path) as file:
        compared = [row for row in json.load(file) if "baseline" in row]
    compared = [row for row in compared if min(len(row[side]["samples"]) for side in ("ours", "baseline")) >= ROUNDS_MIN]
    return {(row["bench"], row["name"], row["baseline"]["name"]): row for row in compared}


def draws(row, dice):
    """Ratios of medians, of rounds that are drawn with replacement."""
    ours, theirs = row["ours"]["samples"], row["baseline"]["samples"]
    if len(ours) == len(theirs):
        rounds = list(zip(ours, theirs))
        for _ in range(DRAWS):
            drawn = dice.choices(rounds, k=len(rounds))
            yield median(one for one, _ in drawn) / median(other for _, other in drawn)
    else:
        for _ in range(DRAWS):
            yield median(dice.choices(ours, k=len(ours))) / median(dice.choices(theirs, k=len(theirs)))


def compare(base, new):
    """The change of the ratio from one row to another, and an interval that has 98 of 100 draws."""
    dice = random.Random(0)
    changes = sorted(after / before for before, after in zip(draws(base, dice), draws(new, dice)))
    low, high = changes[int(DOUBT * DRAWS)], changes[int((1 - DOUBT) * DRAWS)]
    return new["ratio"] / base["ratio"], low, high


def main(base, new):
    base, new = rows(base), rows(new)
    worse = 0
    for key in [key for key in new if key in base]:
        change, low, high = compare(base[key], new[key])
        is_worse = low > 1 + SLACK
        worse += is_worse
        bench, name, baseline = key
        verdict = "WORSE" if is_worse else "better" if high < 1 - SLACK else ""
        print(f"{bench:<8} {name} / {baseline}: {base[key]['ratio']:.3g} to {new[key]['ratio']:.3g}, "
              f"{change - 1:+.1%} [{low - 1:+.1%}, {high - 1:+.1%}] {verdict}".rstrip())
    for key in sorted(base.keys() ^ new.keys()):
        print(f"{key[0]:<8} {key[1]} / {key[2]}: only in {'BASE' if key in base else 'NEW'}")
    if not base.keys() & new.keys():
        sys.exit("the files have no row in common")
    if worse:
        sys.exit(f"{worse} ratios are worse by more than {SLACK:.0%} and the noise")


if len(sys.argv) != 3:
    sys.exit(__doc__.splitlines()[0])
main(*sys.argv[1:])
