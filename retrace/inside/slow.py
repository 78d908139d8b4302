"""`retrace.slow()`: finds the smallest part of a program that is slow to compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from retrace.errors import UsageError

_MIN_SHARE = 0.6
"""A half is searched further if it takes at least this share of the whole's compile time."""
_MAX_STEPS = 24


class Line(NamedTuple):
    """A source line of the slow part."""

    file: str
    line: int
    function: str
    equations: int


class Step(NamedTuple):
    """A part that was compiled on its own."""

    equations: int
    seconds: float


class Slow(NamedTuple):
    """What is slow to compile; `print` shows it as text."""

    name: str
    equations: int
    seconds: float
    part: Step
    """The smallest part that stays slow."""
    lines: tuple[Line, ...]
    """Source lines of that part, those with most equations first."""
    primitives: tuple[tuple[str, int], ...]
    steps: tuple[Step, ...]
    """The parts compiled during the search."""
    stablehlo: str
    """Its module; all its inputs, captured arrays included, are arguments."""

    def __str__(self) -> str:
        from retrace.present.words import count, listed, seconds

        equations = count(self.equations, "equation")
        whole = f"{self.name}: {seconds(self.seconds)} to compile {equations}"
        if len(self.steps) <= 3 and self.part.equations == self.equations:
            share = f"{100 * _MIN_SHARE:.0f} %"
            return f"{whole}; neither half takes {share} of that: it is slow as a whole"
        what = listed([f"{name} ({number:,})" for name, number in self.primitives], 4)
        alone = f"{count(self.part.equations, 'equation')} alone"
        where = [
            f"  {line.file}:{line.line}  {line.function}  {count(line.equations, 'equation')}"
            for line in self.lines[:5]
        ]
        return "\n".join([whole, f"{alone}: {seconds(self.part.seconds)}, {what}", *where])


def slow(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Slow:
    """Find which part of a function's program is slow to compile.

    The function is traced for these arguments and its program is compiled in halves, then the
    slower half in halves, and so on while one of them stays slow. Nothing is executed or
    kept. It takes about twice as long as compiling the whole program.

    Args:
        function: the function, jitted or not.
        *args: its arguments; `jax.ShapeDtypeStruct` works too.
        **kwargs: its keyword arguments.

    Raises:
        UsageError: its program has no equations.

    Example:
        >>> import jax.numpy as jnp, retrace
        >>> print(retrace.slow(step, params, batch))  # doctest: +SKIP
        step: 62.1 s to compile 2,310 equations
        1 equation alone: 58.8 s, sort (1)
          model.py:91  step  1 equation
    """
    from retrace.jax_internals import program_parts

    part = program_parts.traced(function, args, kwargs)
    if not program_parts.size(part):
        raise UsageError(
            "the program of this function has no equations: there is nothing to compile"
        )
    equations = program_parts.size(part)
    spent, text = program_parts.compiled(part)
    whole, steps = spent, [Step(equations, spent)]
    around: tuple[Line, ...] = ()
    while len(steps) < _MAX_STEPS:
        if (within := program_parts.inside(part)) is not None and program_parts.size(within):
            # JAX's own functions contain no user line: use the line that called them.
            around = _lines(part) or around
            part = within
            continue
        middle = (part.first + part.end) // 2
        if middle == part.first:
            break
        found: list[tuple[float, program_parts.Part, Callable[[], str]]] = []
        for half in (part._replace(end=middle), part._replace(first=middle)):
            seconds, written = program_parts.compiled(half)
            steps.append(Step(program_parts.size(half), seconds))
            found.append((seconds, half, written))
        seconds, half, written = max(found, key=lambda one: one[0])
        if seconds < _MIN_SHARE * spent:
            break
        part, spent, text = half, seconds, written
    names = Counter(program_parts.primitives(part))
    return Slow(
        getattr(function, "__name__", type(function).__name__),
        equations,
        whole,
        Step(program_parts.size(part), spent),
        _lines(part) or around,
        tuple(names.most_common()),
        tuple(steps),
        text(),
    )


def _lines(part: Any) -> tuple[Line, ...]:
    from retrace.capture.programs import transcript
    from retrace.compare.source_lines import place

    listing = transcript(part.jaxpr).listings[-1]
    found = Counter(place(listing, index) for index in range(part.first, part.end))
    return tuple(
        Line(frame.file, frame.line, frame.function, number)
        for frame, number in found.most_common()
        if frame is not None
    )
