"""Measures everything and prints a table; exits with 1 if a bound is exceeded."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterator

import jax

from tests.benchmarks import commands, growth, guards, programs, recording, scale, slow
from tests.benchmarks.measure import Ratio


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    if seconds < 1e-6:
        return f"{seconds * 1e9:.0f} ns"
    return f"{seconds * 1e6:.2f} µs"


def _row(ratio: Ratio) -> str:
    bound = "-" if ratio.bound is None else f"{ratio.bound:.2f}"
    low, high = ratio.spread
    said = _time if ratio.unit == "seconds" else lambda value: f"{value:.0f} {ratio.unit}"
    return (
        f"| {ratio.name} | {said(ratio.plain)} | {said(ratio.other)} "
        f"| {ratio.ratio:.3f} | {low:.3f} to {high:.3f} | {bound} |"
    )


def _measurements(quick: bool) -> Iterator[Callable[[], Ratio | None]]:
    for leaves in (1, 30, 300):
        yield lambda leaves=leaves: recording.hits(leaves, 9 if quick else 41)
    yield lambda: recording.smallest_miss(15 if quick else 101)
    yield lambda: recording.smallest_inside(30 if quick else 200)
    yield lambda: recording.reading_inside(30 if quick else 200)
    yield lambda: recording.explained_miss(15 if quick else 101)
    yield lambda: recording.large_miss(3 if quick else 9)
    yield lambda: recording.large_inside(2 if quick else 5)
    yield lambda: commands.importing(5 if quick else 25)
    yield lambda: commands.reporting(5, 20, 5 if quick else 25, 1.3)
    yield lambda: commands.reporting(1000, 20, 5 if quick else 25, 2.0)
    yield lambda: commands.planning(2_000, 8_000, 1 if quick else 5)
    yield from _guards(quick)
    for index in range(5):
        yield lambda index=index: programs.comparing()[index]
    for index in range(9):
        yield lambda index=index: programs.growing()[index]
    yield from growth.rows(quick)
    yield from slow.rows(quick)


def _guards(quick: bool) -> Iterator[Callable[[], Ratio | None]]:
    for guarded in _GUARDED:
        yield lambda guarded=guarded: guarded(15 if quick else 101)
    for named in (True, False):
        yield lambda named=named: guards.growing(2_000 if quick else 10_000, named)
    yield lambda: guards.plugin(7 if quick else 41)


def _scale(quick: bool) -> Iterator[Callable[[], Ratio | None]]:
    for ratio in scale.reporting():
        yield lambda ratio=ratio: ratio


_GUARDED = (
    guards.asserted,
    guards.frozen,
    guards.raising,
    guards.by_chex,
    guards.by_equinox,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--guards", action="store_true", help="the rows on guards alone")
    parser.add_argument("--growth", action="store_true", help="the rows on growth alone")
    parser.add_argument("--slow", action="store_true", help="the rows on slow misses alone")
    parser.add_argument(
        "--scale", action="store_true", help="a report of a million misses, these rows alone"
    )
    arguments = parser.parse_args()
    print(f"jax {jax.__version__}, Python {platform.python_version()}, {platform.machine()}\n")
    print("| what | plain | with retrace | ratio (median) | quartiles | at most |")
    print("|---|---|---|---|---|---|")
    held = True
    measured = _measurements
    for alone, rows in (
        ("guards", _guards),
        ("growth", growth.rows),
        ("scale", _scale),
        ("slow", slow.rows),
    ):
        if getattr(arguments, alone):
            measured = rows
    for measure in measured(arguments.quick):
        if (ratio := measure()) is None:  # the package to compare with is not installed
            continue
        held = held and ratio.holds
        print(_row(ratio), flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
