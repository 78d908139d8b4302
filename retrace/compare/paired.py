"""One equation of two programs that were traced for two sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from retrace.model.row import Row
from retrace.regex import regex

_SHAPE = regex(r"\[([\w,+*() -]*)\]")
_INTEGER = regex(r":~?[iu]\d")


class Operand(Row):
    """The sizes of one operand or result in both programs."""

    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def axes(self) -> frozenset[int]:
        """The axes whose size differs."""
        return frozenset(
            axis for axis, (a, b) in enumerate(zip(self.old, self.new, strict=True)) if a != b
        )


class Equation(Row):
    """An equation of one form in both programs."""

    name: str
    given: tuple[Operand, ...]
    made: tuple[Operand, ...]
    old: dict[str, str]
    """The parameters in the old program."""
    new: dict[str, str]
    literal: bool
    """Whether a literal differs."""
    is_positional: bool
    """Whether all operands are integers: positions."""

    @property
    def is_by_size(self) -> bool:
        """Whether it takes the size as a parameter alone: an exponent, or `table[len(x)]`."""
        differs = any(operand.axes for operand in (*self.given, *self.made))
        return not differs and self.old != self.new

    def axes_in(self, name: str) -> frozenset[int] | None:
        """The axes that a parameter names; None if it differs."""
        text = self.old.get(name)
        if text is None or text != self.new.get(name):
            return None
        return frozenset(int(one) for one in re.findall(r"\d+", text))


def arity(text: str) -> tuple[int, list[str]]:
    """How many variables an equation takes, and the types of its results."""
    parts = text.split("\t", 3)
    taken = parts[1].split(" ").count("$") if len(parts) > 1 else 0
    return taken, parts[2].split(" ") if len(parts) > 2 and parts[2] else []


def equation(old: str, new: str, types: Sequence[tuple[str, str]]) -> Equation | None:
    """Pair one equation of both programs; None if their forms differ.

    Args:
        old: its text in the old program.
        new: its text in the new program.
        types: the types of the variables that it takes, in both.
    """
    a, b = old.split("\t"), new.split("\t")
    given: list[Operand | None] = []
    literal = False
    arguments = [side[1].split(" ") if len(side) > 1 and side[1] else [] for side in (a, b)]
    results = [side[2].split(" ") if len(side) > 2 and side[2] else [] for side in (a, b)]
    if a[0] != b[0] or any(len(x) != len(y) for x, y in (arguments, results)):
        return None
    variables = iter(types)
    for x, y in zip(*arguments, strict=True):
        if (x == "$") != (y == "$"):
            return None
        if x == "$":
            given.append(_operand(*next(variables, ("", "?"))))
        else:
            given.append(_operand(x.rpartition(":")[2], y.rpartition(":")[2]))
            literal = literal or x.rpartition(":")[0] != y.rpartition(":")[0]
    made = [_operand(x, y) for x, y in zip(*results, strict=True)]
    if None in given or None in made:
        return None
    return Equation(
        a[0],
        tuple(one for one in given if one is not None),
        tuple(one for one in made if one is not None),
        _parameters(a),
        _parameters(b),
        literal,
        all(_INTEGER.search(one) for one in arguments[0]),
    )


def _parameters(parts: list[str]) -> dict[str, str]:
    split = [part.partition("=") for part in parts[3:]]
    return {name: value for name, _, value in split}


def _operand(old: str, new: str) -> Operand | None:
    shapes = [_SHAPE.search(side) for side in (old, new)]
    if shapes[0] is None or shapes[1] is None:
        return Operand((), ()) if old == new else None
    a, b = [tuple(filter(None, shape[1].split(","))) for shape in shapes if shape is not None]
    return Operand(a, b) if len(a) == len(b) else None
