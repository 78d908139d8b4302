"""Where programs are large: equations by source line, including sub-programs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from retrace.compare.blocks import numberless
from retrace.compare.equation import inner, primitive
from retrace.compare.repeats import Run, long_runs, runs
from retrace.compare.source_lines import place
from retrace.model import Frame, Listing, Stack

_MAX_DEPTH = 40
_LENGTH = re.compile(r"\tlength=([0-9]{1,18})(?![0-9])")
_MAX_TRIPS = 1 << 62
_BUDGET = 4_000_000
"""Maximum work on programs that are called again, counted in rows and frames: a hostile recording
can nest programs without end."""
_MIN_TIMES = 8
_MIN_EQUATIONS = 24
"""A block that is repeated less is not worth reporting."""
_MIN_SAVED = 200
"""Fewer rounds are enough if a loop would save this many equations, such as six steps of a
physics engine."""
_MIN_TIMES_LARGE = 3
_REVISITED = 0.8
"""A round contains a loop if it visits this share of its lines more than once."""


class Sample(NamedTuple):
    """Equations of one primitive that were traced with one stack."""

    primitive: str
    stack: Stack


class Amount(NamedTuple):
    """How many equations there are, and how many are executed."""

    equations: int
    run: int
    """`equations` times the trip counts of the surrounding scans."""


class Unrolled(NamedTuple):
    """A block that a program contains many times in a row."""

    place: Frame | None
    primitives: tuple[str, ...]
    times: int
    equations: int
    """Equations of one round, counting sub-programs at each call."""
    around: tuple[tuple[Frame, ...], ...] = ()
    """The user's lines that the whole round was traced under, innermost function first: all lines
    of the round in that function, and in each function around it the one line that calls it."""
    holds_loop: bool = False
    """Whether a round visits the lines of its innermost function several times, so that not the
    innermost loop repeats it but one around it."""
    program: str = ""
    """The id of the listing that contains it."""
    rows: range = range(0)
    """The positions of all rounds in that listing."""

    @property
    def saved(self) -> int:
        """How many equations a JAX loop would save."""
        return (self.times - 1) * self.equations


class Samples(dict[Sample, Amount]):
    """Equation counts by stack and primitive."""

    whole = True
    """Whether all sub-programs were followed."""


def samples(programs: Iterable[Listing], listings: Mapping[str, Listing]) -> Samples:
    """Count the equations of programs, by stack and primitive."""
    walk = _Walk(listings)
    for program in programs:
        walk.program(program, 1, 1, (), 0)
    found = Samples({sample: Amount(*walk.found[sample]) for sample in walk.found})
    found.whole = walk.budget > 0 and not walk.is_cut
    return found


class _Walk:
    def __init__(self, listings: Mapping[str, Listing]) -> None:
        self.found: dict[Sample, list[int]] = {}
        self._listings = listings
        self._groups: dict[str, Counter[tuple[str, int]]] = {}
        self.budget = _BUDGET
        self.is_cut = False

    def program(self, listing: Listing, times: int, trips: int, outer: Stack, depth: int) -> None:
        groups = self._groups.get(listing.id)
        if groups is None:
            places = listing.places or [-1] * len(listing.equations)
            groups = Counter(zip(listing.equations, places, strict=True))
            self._groups[listing.id] = groups
        else:
            # The first visit is free: its work is proportional to the recording.
            self.budget -= len(groups) * (8 + len(outer))
            if self.budget <= 0:
                return
        for (text, at), number in groups.items():
            stack = (*(listing.stacks[at] if at >= 0 else ()), *outer)
            row = self.found.setdefault(Sample(primitive(text), stack), [0, 0])
            row[0] += number * times
            row[1] += number * times * trips
            if "@" not in text:
                continue
            if depth >= _MAX_DEPTH:
                self.is_cut = True
                continue
            name, length = primitive(text), _LENGTH.search(text)
            inside = trips * (int(length[1]) if name == "scan" and length else 1)
            for hash_, copies in Counter(inner(text)).items():
                sub = self._listings.get(listing.inner.get(hash_, ""))
                if sub is not None:
                    amount = min(number * times * copies, _MAX_TRIPS)
                    self.program(sub, amount, min(inside, _MAX_TRIPS), stack, depth + 1)


def _with_sub_programs(
    programs: Iterable[Listing], listings: Mapping[str, Listing]
) -> Iterator[Listing]:
    """The programs and their sub-programs, each once."""
    seen: set[str] = set()
    for program in programs:
        waiting = [program]
        while waiting:
            listing = waiting.pop()
            if listing.id not in seen:
                seen.add(listing.id)
                yield listing
                inside = map(listings.get, listing.inner.values())
                waiting += [sub for sub in inside if sub is not None]


def _around(listing: Listing, rows: range) -> tuple[tuple[Frame, ...], ...]:
    if not listing.places:
        return ()
    stacks = {listing.stacks[listing.places[index]] for index in rows}
    found: list[tuple[Frame, ...]] = []
    own = [[frame for frame in reversed(stack) if not frame.in_library] for stack in stacks]
    for frames in zip(*own, strict=False):
        if len({(one.file, one.function, one.first_line) for one in frames}) > 1:
            break
        found.append(tuple(sorted(set(frames), key=lambda one: one.line)))
        if len(found[-1]) > 1:
            break
    return tuple(reversed(found))


def _holds_loop(listing: Listing, rows: range, lines: tuple[Frame, ...]) -> bool:
    own, stretches, last = set(lines), Counter[Frame](), None
    for index in rows:
        stack = listing.stacks[listing.places[index]]
        line = next((frame for frame in stack if frame in own), None)
        if line is not None and line != last:
            stretches[line] += 1
            last = line
    # A statement over several lines may return to its first line, and lines of an outer loop
    # outside the inner one are visited only once.
    return sum(times > 1 for times in stretches.values()) >= _REVISITED * len(stretches)


def _equation_count(listing: Listing, index: int, listings: Mapping[str, Listing]) -> int:
    """Count an equation and those of the programs that it calls."""
    text = listing.equations[index]
    if "@" not in text:
        return 1
    called = (listings.get(listing.inner.get(hash_, "")) for hash_ in inner(text))
    return 1 + sum(one.size for one in called if one is not None)


def _is_within(run: Run, shorter: Sequence[Run]) -> bool:
    """Whether a run consists of several rounds of a shorter one, except for partial ends.

    Shorter runs are in order and do not overlap, so only the two around its start can contain it.
    """
    at = bisect_right(shorter, run.start, key=lambda one: one.start)
    end = run.start + run.length * run.times
    return any(
        run.length > one.length
        and run.length % one.length == 0
        and run.start > one.start - one.length
        and end < one.start + one.length * (one.times + 1)
        for one in shorter[max(at - 1, 0) : at + 1]
    )


def unrolled(programs: Iterable[Listing], listings: Mapping[str, Listing]) -> list[Unrolled]:
    """Find the blocks that Python loops left in programs, most expensive first."""
    found: dict[tuple[Frame | None, tuple[str, ...]], Unrolled] = {}
    for listing in _with_sub_programs(programs, listings):
        tokens = numberless(listing)
        short = [run for run in runs(tokens) if run.times >= _MIN_TIMES_LARGE]
        # Several rounds of a short block look like one round of a longer block: not a new loop.
        long = (run for run in long_runs(tokens) if not _is_within(run, short))
        for run, is_long in chain(zip(short, repeat(False)), zip(long, repeat(True))):
            rows = range(run.start, run.start + run.length)
            equations = sum(_equation_count(listing, index, listings) for index in rows)
            is_many = run.times >= _MIN_TIMES and run.times * run.length >= _MIN_EQUATIONS
            if not is_many and (run.times - 1) * equations < _MIN_SAVED:
                continue
            at = next(filter(None, (place(listing, index) for index in rows)), None)
            named = tuple(primitive(listing.equations[index]) for index in rows)
            around = _around(listing, rows)
            within = is_long and bool(around) and _holds_loop(listing, rows, around[0])
            whole = range(run.start, run.start + run.length * run.times)
            block = Unrolled(at, named, run.times, equations, around, within, listing.id, whole)
            if block.times > found.get((at, named), block._replace(times=0)).times:
                found[at, named] = block
    return sorted(found.values(), key=lambda block: -block.saved)
