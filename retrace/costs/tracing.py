"""Samples of a trace, summed by line, by function and by kind of work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retrace.compare.source_lines import own_frame
from retrace.model import Frame, Stack, Tracing
from retrace.model.slow import Part

_DOMINANT = 0.8
"""Fraction of a line's seconds that another line around or inside it must hold to be named."""
_EXPRESSIONS = ("<genexpr>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>")
NOT_TRACING = frozenset((Part.PYTHON, Part.EQUALITY, Part.FLATTEN, Part.COLLECTION))


class Row(NamedTuple):
    """One source line."""

    frame: Frame | None
    """None for JAX's work outside any line, such as transposing the whole program."""
    seconds: float
    parts: tuple[tuple[Part, float], ...]
    """The kinds of work done there, largest first."""
    under: Frame | None
    """The user's outermost line that led there, if there is one and it differs."""
    inside: Frame | None
    """The library line that took most of the time, if there is one."""


class TraceSummary(NamedTuple):
    """The sums of all samples of one trace."""

    lines: tuple[Row, ...]
    """By the user's innermost line."""
    outermost: tuple[tuple[Frame, float], ...]
    """By the user's outermost line, including everything it called."""
    functions: tuple[tuple[Frame, float], ...]
    """By the user's function, including everything it called; the frame is its first line."""
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


def summarise(tracing: Tracing) -> TraceSummary:
    """Sum up the samples of a trace; all lists are sorted, most expensive first."""
    lines: dict[Frame | None, _Line] = {}
    outermost: dict[Frame, float] = defaultdict(float)
    functions: dict[Frame, float] = defaultdict(float)
    parts: dict[Part, float] = defaultdict(float)
    for sampled in tracing.stacks:
        spent = sampled.seconds
        parts[sampled.part] += spent
        frame = _user_line(sampled.stack)
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
            _largest_first(row.parts),
            _dominant_frame(row.under, row.seconds, frame),
            _dominant_frame(row.inside, row.seconds, frame),
        )
        for frame, row in lines.items()
    ]
    rows.sort(key=lambda row: -row.seconds)
    return TraceSummary(
        tuple(rows),
        tuple(Counter(outermost).most_common()),
        tuple(Counter(functions).most_common()),
        _largest_first(parts),
        tracing.seconds,
        tracing.waited,
        tracing.samples,
        tracing.collections,
        tracing.ended,
    )


def _user_line(stack: Stack) -> Frame | None:
    """The user's innermost line, named after the function that the line belongs to.

    A generator expression or comprehension has its own frame on the same line.
    """
    frame = own_frame(stack)
    if frame is None or not frame.function.endswith(_EXPRESSIONS):
        return frame
    around = (one for one in stack if (one.file, one.line) == (frame.file, frame.line))
    return next((one for one in around if not one.function.endswith(_EXPRESSIONS)), frame)


def _function(frame: Frame) -> Frame:
    return frame._replace(line=frame.first_line)


def _largest_first(parts: Mapping[Part, float]) -> tuple[tuple[Part, float], ...]:
    return tuple(sorted(parts.items(), key=lambda item: -item[1]))


def _dominant_frame(
    found: Mapping[Frame, float], total: float, but: Frame | None
) -> Frame | None:
    best = max(found, key=lambda frame: found[frame], default=None)
    if best is None or best == but or found[best] < _DOMINANT * total:
        return None
    return best


def outside_tracing(parts: Iterable[tuple[Part, float]]) -> float:
    """Seconds spent in code outside JAX, which the trace may not have needed."""
    return sum(seconds for part, seconds in parts if part in NOT_TRACING)
