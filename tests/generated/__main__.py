"""`python -m tests.generated --count 5000` runs that many programs."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.generated import lengths, rows, several
from tests.generated.proof import prove
from tests.generated.sample import drawn

_EACH = 10
"""Per this many programs, one in which several things vary, fixed alone and together, and one
with many lengths. Programs of rows are as many as requested."""


def main() -> int:
    """Run programs; exit with 1 if advice on one of them is wrong."""
    parser = argparse.ArgumentParser(prog="tests.generated")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    chosen = parser.parse_args()
    told: Counter[str] = Counter()
    wrong = 0
    began = time.process_time()
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        case = drawn(seed)
        for problem in prove(case, told):
            wrong += 1
            print(f"{case.name}\n    {problem}", flush=True)
    for seed in range(chosen.seed, chosen.seed + chosen.count // _EACH):
        for problem in (*several.prove(seed), *lengths.prove(seed)):
            wrong += 1
            print(problem, flush=True)
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        for problem in rows.prove(seed):
            wrong += 1
            print(problem, flush=True)
    spent = time.process_time() - began
    number = 2 * chosen.count + 2 * (chosen.count // _EACH)
    print(f"{number} programs, {wrong} wrong, {spent:.0f} s of processor time")
    for name, number in sorted(told.items()):
        print(f"  {number:6,}  {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
