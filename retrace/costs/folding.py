"""What XLA computes during compilation: equations that depend on no argument."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from retrace.compare.equation import inner, primitive
from retrace.compare.source_lines import place
from retrace.costs.constants import size
from retrace.model import Frame, Listing

FOLDING = "constant_folding"
"""XLA's pass that does this."""
_DOMINANT = 0.8
"""Fraction of this work that one line must hold to be named."""
_MAX_DEPTH = 40
_MAX_EQUATIONS = 1_000_000
"""Maximum number of equations visited: a hostile recording may nest programs endlessly."""
_WINDOW = re.compile(r"\twindow_dimensions=\(([\d,]*)\)")
_CALLS = frozenset(("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint"))
_CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")


class Folded(NamedTuple):
    """The line whose equations XLA could compute during compilation."""

    frame: Frame
    primitive: str
    """The primitive with most work on the line."""
    type: str
    """The type of its result."""


class _Equation(NamedTuple):
    frame: Frame | None
    primitive: str
    type: str
    work: int


def folded(listing: Listing, listings: Mapping[str, Listing]) -> Folded | None:
    """The line that holds nearly everything the program computes from constants alone.

    None if there is no such equation, or no single line stands out.
    """
    walk = _Walk(listings)
    fixed = [index < len(listing.constants) for index in range(len(listing.inputs))]
    found = list(walk.program(listing, fixed, None, 0))
    if not found or not walk.budget:
        return None
    work: Counter[Frame | None] = Counter()
    for one in found:
        work[one.frame] += one.work
    frame, most = work.most_common(1)[0]
    if frame is None or most < _DOMINANT * work.total():
        return None
    largest = max((one for one in found if one.frame == frame), key=lambda one: one.work)
    return Folded(frame, largest.primitive, largest.type)


class _Walk:
    def __init__(self, listings: Mapping[str, Listing]) -> None:
        self._listings = listings
        self.budget = _MAX_EQUATIONS

    def program(
        self, listing: Listing, fixed: Sequence[bool], around: Frame | None, depth: int
    ) -> Iterator[_Equation]:
        """Equations of a program that depend only on fixed inputs.

        Args:
            listing: the program.
            fixed: for each input, whether it is a constant.
            around: the line that calls the program.
            depth: the number of enclosing programs.
        """
        known, types = list(fixed), list(listing.inputs)
        wires = iter(listing.wires)
        for index, text in enumerate(listing.equations):
            if not self.budget:
                return
            self.budget -= 1
            parts = text.split("\t")
            numbers = [next(wires, -1) for one in parts[1].split() if one == "$"]
            results = parts[2].split() if len(parts) > 2 else []
            if not all(0 <= number < len(known) for number in numbers):
                return
            held = [known[number] for number in numbers]
            frame = place(listing, index) or around
            name = primitive(text)
            is_fixed = all(held)
            sub = self._called(listing, text)
            if sub is not None and depth < _MAX_DEPTH and any(held):
                given = _given(parts[1].split(), held)
                if len(sub.inputs) - len(sub.constants) == len(given):
                    yield from self.program(
                        sub, [*(True for _ in sub.constants), *given], frame, depth + 1
                    )
            elif is_fixed and "@" not in text:
                taken = [types[number] for number in numbers]
                yield _Equation(frame, name, results[0] if results else "", _work(text, taken))
            # A loop runs when the program runs, whatever its initial values.
            known += [is_fixed and (sub is not None or "@" not in text) for _ in results]
            types += results

    def _called(self, listing: Listing, text: str) -> Listing | None:
        if primitive(text) not in _CALLS:
            return None
        found = [self._listings.get(listing.inner.get(hash_, "")) for hash_ in inner(text)]
        return found[0] if len(found) == 1 else None


def _given(arguments: Sequence[str], held: Sequence[bool]) -> list[bool]:
    """For each argument, including literals, whether it is fixed."""
    each = iter(held)
    return [next(each) if one == "$" else True for one in arguments]


def _work(text: str, taken: Sequence[str]) -> int:
    """Roughly how many bytes an equation touches."""
    parts = text.split("\t")
    made = sum(map(size, parts[2].split())) if len(parts) > 2 else 0
    bytes_ = max([made, *map(size, taken)])
    if (window := _WINDOW.search(text)) is not None:
        return bytes_ * prod(int(one) for one in window[1].split(",") if one)
    return bytes_ * 16 if parts[0].startswith((*_CUMULATIVE, "sort")) else bytes_
