"""Samples of a trace, added up by line, by function and by what was done below them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retrace.compare.source_lines import own_frame
from retrace.model import Frame, Stack, Tracing
from retrace.model.slow import Part

_HOLDS = 0.8
"""Of a line's seconds, what one line around it, or inside it, must hold to be named beside it."""
_EXPRESSIONS = ("<genexpr>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>")
NOT_TRACING = frozenset((Part.PYTHON, Part.EQUALITY, Part.FLATTEN, Part.COLLECTION))


class Row(NamedTuple):
    """One source line."""

    frame: Frame | None
    """None for what JAX does outside all lines, such as the transposition of the whole."""
    seconds: float
    parts: tuple[tuple[Part, float], ...]
    """What was done there, most first."""
    under: Frame | None
    """The user's outermost line that led there, where that is one, and another one."""
    inside: Frame | None
    """The library's line that it spent most of that in, where that is one."""


class Told(NamedTuple):
    """All samples of one trace."""

    lines: tuple[Row, ...]
    """By the user's innermost line."""
    outermost: tuple[tuple[Frame, float], ...]
    """By the user's outermost line, with all that it called."""
    functions: tuple[tuple[Frame, float], ...]
    """By the user's function, with all that it called; the frame is of its first line."""
    parts: tuple[tuple[Part, float], ...]
    seconds: float
    waited: float
    samples: int
    collections: int
    ended: bool


class _Line:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.parts: dict[Part, float] = defaultdict(float)
        self.under: dict[Frame, float] = defaultdict(float)
        self.inside: dict[Frame, float] = defaultdict(float)


def told(tracing: Tracing) -> Told:
    """The samples of a trace, added up; all lists most expensive first."""
    lines: dict[Frame | None, _Line] = {}
    outermost: dict[Frame, float] = defaultdict(float)
    functions: dict[Frame, float] = defaultdict(float)
    parts: dict[Part, float] = defaultdict(float)
    for sampled in tracing.stacks:
        spent = sampled.seconds
        parts[sampled.part] += spent
        frame = _told(sampled.stack)
        row = lines.setdefault(frame, _Line())
        row.seconds += spent
        row.parts[sampled.part] += spent
        own = [one for one in sampled.stack if not one.in_library]
        if not own:
            continue
        outermost[own[-1]] += spent
        row.under[own[-1]] += spent
        if sampled.stack[0].in_library:
            row.inside[sampled.stack[0]] += spent
        for function in {_function(one) for one in own}:
            functions[function] += spent
    rows = [
        Row(
            frame,
            row.seconds,
            _most(row.parts),
            _holding(row.under, row.seconds, frame),
            _holding(row.inside, row.seconds, frame),
        )
        for frame, row in lines.items()
    ]
    rows.sort(key=lambda row: -row.seconds)
    return Told(
        tuple(rows),
        tuple(Counter(outermost).most_common()),
        tuple(Counter(functions).most_common()),
        _most(parts),
        tracing.seconds,
        tracing.waited,
        tracing.samples,
        tracing.collections,
        tracing.ended,
    )


def _told(stack: Stack) -> Frame | None:
    """The user's innermost line, by the name of the function that the line is part of.

    A generator expression or a comprehension has a frame of its own, on the same line.
    """
    frame = own_frame(stack)
    if frame is None or not frame.function.endswith(_EXPRESSIONS):
        return frame
    around = (one for one in stack if (one.file, one.line) == (frame.file, frame.line))
    return next((one for one in around if not one.function.endswith(_EXPRESSIONS)), frame)


def _function(frame: Frame) -> Frame:
    return frame._replace(line=frame.first_line)


def _most(parts: Mapping[Part, float]) -> tuple[tuple[Part, float], ...]:
    return tuple(sorted(parts.items(), key=lambda item: -item[1]))


def _holding(found: Mapping[Frame, float], total: float, but: Frame | None) -> Frame | None:
    best = max(found, key=lambda frame: found[frame], default=None)
    if best is None or best == but or found[best] < _HOLDS * total:
        return None
    return best


def outside_tracing(parts: Iterable[tuple[Part, float]]) -> float:
    """Seconds of code outside JAX: what a trace ran and need not have."""
    return sum(seconds for part, seconds in parts if part in NOT_TRACING)
