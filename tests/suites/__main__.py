"""Run another project's tests plain and under recording, and compare.

    python -m tests.suites ../equinox -- tests/test_jit.py
    python -m tests.suites ../optax --cache -- optax/_src/base_test.py
    python -m tests.suites ../flax --python ../venv/bin/python -- tests/nnx -k module

The tests must pass and fail alike, with the same messages; what their functions hold when they
return must be the same bit for bit; JAX must count the same traces, lowerings and compilations;
the misses recorded must be those that JAX counts; none may have
the cause `unknown`. With --cache, a persistent cache that was filled without recording must
serve every program with it, and the reverse. Exit code 1 where that does not hold. What
differs between plain runs as well is told as unsteady, and is no difference. With --pairs
nothing is compared but the time that both take; with --ways, the processor time of each way of
using retrace: `retrace run`, `pytest --retrace`, a policy and a guard that warn.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from retrace.reason.verdict import judge
from retrace.store.reader import read
from tests.suites.differences import (
    COUNTED,
    between,
    causes,
    from_counters,
    losses,
    unexplained,
    unsound,
)
from tests.suites.runs import Run, Suite, programs
from tests.suites.ways import in_turn

_MOST = 20
_AGAIN = 3
"""So often what differs is run plain again, to see whether it differs from itself."""


def _tell(title: str, found: Mapping[str, list[str]]) -> None:
    if found:
        print(f"\n{title}")
    for test, differences in list(found.items())[:_MOST]:
        print(f"  {test}")
        for difference in differences:
            print(f"    {difference}")
    if len(found) > _MOST:
        print(f"  and {len(found) - _MOST} more")


def _row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |")


def _count(run: Run) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(run.outcomes().items()))


def compared(suite: Suite, scratch: Path, *, cached: bool) -> bool:
    """Run the suite both ways and print the table; whether nothing differs."""
    caches = _caches(scratch) if cached else {}
    plain = suite.run(scratch / "plain", recorded=False, cache=caches.get(False))
    recorded = suite.run(scratch / "recorded", recorded=True, cache=caches.get(True))
    if not plain.tests or 124 in (plain.status, recorded.status):
        print(f"the tests did not run to their end:\n{plain.tail}\n{recorded.tail}")
        return False
    changed = between(plain, recorded)
    unsteady: dict[str, list[str]] = {}
    for again in range(_AGAIN):
        if changed.keys() <= unsteady.keys():
            break
        cache = _caches(scratch / f"caches-{again}")[False] if cached else None
        repeated = suite.run(scratch / f"again-{again}", recorded=False, cache=cache)
        unsteady = {**between(plain, repeated), **unsteady}
    # What began before a test, and what a suite does after it, moves with its neighbours.
    differing = {name: told for name, told in changed.items() if name not in unsteady}
    uncounted = from_counters(recorded)
    unknown = unexplained(recorded)
    wrong = unsound(judge(read([recorded.recording]))) if recorded.recording else []
    _row("", "plain", "recorded")
    _row("---", "---", "---")
    _row("tests", _count(plain), _count(recorded))
    _row("arrays", plain.arrays(), recorded.arrays())
    for kind in COUNTED:
        _row(kind, plain.total(kind), recorded.total(kind))
    found = causes(recorded)
    _row("misses", "", found.total())
    for cause, count in found.most_common():
        _row(f"`{cause}`", "", count)
    for reason, count in losses(recorded).items():
        _row(f"lost: {reason}", "", count)
    _row("seconds", f"{plain.seconds:.1f}", f"{recorded.seconds:.1f}")
    _row("ratio", "", f"{recorded.seconds / plain.seconds:.3f}")
    _row("processor seconds", f"{plain.busy:.1f}", f"{recorded.busy:.1f}")
    _row("ratio", "", f"{recorded.busy / plain.busy:.3f}")
    _tell("Different under recording:", differing)
    _tell("Unsteady, in plain runs as well:", unsteady)
    _tell("Recorded otherwise than JAX counts:", uncounted)
    _tell("Without a cause:", {"unknown": unknown} if unknown else {})
    _tell("Changes that do not give the key:", {"unsound": wrong} if wrong else {})
    if "retrace:" in recorded.tail:
        print(f"\nSaid by retrace:\n{recorded.tail}")
        return False
    held = not (differing or uncounted or unknown or wrong)
    return _serve(suite, scratch, caches) and held


def _caches(scratch: Path) -> dict[bool, Path]:
    """New directories for persistent caches, by whether a recorded run fills it."""
    caches = {recorded: scratch / f"cache-{_way(recorded)}" for recorded in (False, True)}
    for cache in caches.values():
        cache.mkdir(parents=True)
    return caches


def _way(recorded: bool) -> str:
    return "recorded" if recorded else "plain"


def _serve(suite: Suite, scratch: Path, caches: Mapping[bool, Path]) -> bool:
    """Whether the persistent cache that one way of running filled serves the other."""
    held = True
    for first, cache in caches.items():
        name, other = _way(first), _way(not first)
        filled = programs(cache)
        kept = scratch / f"cache-{name}-kept"
        shutil.copytree(cache, kept)
        run = suite.run(scratch / f"use-{name}", recorded=not first, cache=cache)
        added = programs(cache) - filled
        if run.status == 124:
            print(f"the tests did not run to their end:\n{run.tail}")
            return False
        print(
            f"\nCache filled {name}: {len(filled)} programs, {len(added)} more when run {other}; "
            f"{run.total('cache_hits')} hits"
        )
        if added:
            # What one way of running does not find again, no other can.
            suite.run(scratch / f"again-{name}", recorded=first, cache=kept)
            own = programs(kept) - filled
            print(f"  {len(own)} more when run {name} again, {len(added - own)} not among them")
            added -= own
        for key in sorted(added)[:_MOST]:
            print(f"  {key}")
        shutil.rmtree(kept)
        held = held and bool(filled) == bool(run.total("compile")) and not added
    return held


def timed(suite: Suite, scratch: Path, pairs: int) -> bool:
    """Run the suite both ways in turn, and print by how much longer recording makes it."""
    rows: list[tuple[Run, Run]] = []
    for index in range(pairs):
        # Who goes first finds the files on disk and not in memory: they take turns in that.
        order = (False, True) if index % 2 else (True, False)
        runs = {
            recorded: suite.run(scratch / f"{index}-{recorded}", recorded=recorded)
            for recorded in order
        }
        if not all(run.tests and run.status != 124 for run in runs.values()):
            print(f"the tests did not run to their end:\n{runs[False].tail}\n{runs[True].tail}")
            return False
        rows.append((runs[False], runs[True]))
    misses = causes(rows[0][1]).total()
    print(f"{_count(rows[0][0])}, {misses:,} misses, {pairs} pairs\n")
    _row("", "plain", "recorded", "ratio (median)", "from", "to")
    _row(*("---",) * 6)
    for name, told in (("seconds", "seconds"), ("busy", "processor seconds")):
        plain, other = ([getattr(run, name) for run in side] for side in zip(*rows, strict=True))
        ratios = sorted(b / a for a, b in zip(plain, other, strict=True))
        shown = (median(plain), median(other), median(ratios), ratios[0], ratios[-1])
        _row(told, *(f"{number:.3f}" for number in shown))
    return True


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(
        prog="python -m tests.suites",
        usage="%(prog)s CHECKOUT [--cache | --pairs N | --ways N] [--python PYTHON] "
        "[--limit SECONDS] [--slow-over SECONDS] [--keep DIR] -- [ARGUMENTS OF PYTEST]...",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", type=Path, help="where the project lies")
    parser.add_argument("--python", default=sys.executable, help="the one to run it with")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for each run")
    parser.add_argument("--cache", action="store_true", help="compare cache keys as well")
    parser.add_argument("--slow-over", type=float, help="record where slow misses go, too")
    parser.add_argument("--pairs", type=int, help="only time it, so often each way")
    parser.add_argument("--ways", type=int, help="only time each way, so often in turn")
    parser.add_argument("--keep", type=Path, help="a new directory to keep the recordings in")
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    if not options.checkout.is_dir():
        parser.error(f"no such directory: {options.checkout}")
    if options.keep is not None and options.keep.exists():
        parser.error(f"{options.keep} is there already: name a new directory")
    given = tuple(arguments[split + 1 :])
    suite = Suite(options.python, options.checkout, given, options.limit, options.slow_over)
    scratch = options.keep or Path(tempfile.mkdtemp(prefix="suites-"))
    try:
        if options.ways:
            held = in_turn(suite, options.ways)
        elif options.pairs:
            held = timed(suite, scratch.absolute(), options.pairs)
        else:
            held = compared(suite, scratch.absolute(), cached=options.cache)
    finally:
        if options.keep is None:
            shutil.rmtree(scratch)
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
