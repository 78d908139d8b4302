"""What a function that was created again holds, by how it could be passed instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrace.model import Change, Component, Value
from retrace.reason.evidence import (
    Evidence,
    holds_arrays,
    innermost,
    is_another_function,
    is_arrays,
    is_function,
    paths,
    types_of,
    values_of,
)
from retrace.reason.fields import field_changes, is_complete
from retrace.reason.program import is_explained
from retrace.reason.traits import looks_equal
from retrace.reason.values import is_amount, is_plain
from retrace.regex import regex

SELF = "self"
"""The name of a method's object, as its code usually has it."""


class Held:
    """The changed values that a recreated function captures or reads, by how to pass them."""

    def __init__(self, changes: tuple[Change, ...]) -> None:
        captured = paths(changes, Component.CLOSURE)
        parts = [
            part
            for change in changes
            if change.component in (Component.CLOSURE, Component.DEFAULTS) and change.path
            # The parts that the code reads are reported separately.
            if not any(
                str(other).startswith((f"{change.path}.", f"{change.path}["))
                for other in captured
            )
            for part in _fields(change)
        ]
        found = {str(part.path): part for part in parts}
        named = {_public(name): part for name, part in found.items()}
        counted = {_public(name) for name in found} - {*found}
        names = _named_once({name: named[name] for name in innermost([*named])})
        self.parts = {name: named[name] for name in names}
        kept = self.parts
        own = {name: part for name, part in kept.items() if name not in counted}
        self.arrays = [
            name for name, part in own.items() if is_arrays(part) or _is_optional(part)
        ]
        self.numbers = [name for name, part in own.items() if is_amount(part)]
        self.plain = [
            name
            for name, part in own.items()
            if (is_plain(part) or {*types_of(part)} == {"list"})  # a list may be the same one
            and name not in (*self.arrays, *self.numbers)
        ]
        self.optimizers = [
            str(change.path)
            for change in changes
            if change.component in (Component.CLOSURE, Component.DEFAULTS)
            and all(type_.startswith("optax.") for type_ in types_of(change))
            and any(is_below(name, (str(change.path),)) for name in self.numbers)
        ]
        """Optax optimizers created with other numbers, whose contents cannot be passed."""
        self.partly_known = [
            str(change.path)
            for change in changes
            if change.component is Component.CLOSURE
            and {*map(_holds_functions, values_of(change))} == {True}
            and any(is_below(name, (str(change.path),)) for name in kept)
        ]
        """Objects of which parts differ, with functions in them that may read something else."""
        self.found = bool(kept)
        self.names = tuple(kept)
        known = {*self.arrays, *self.numbers, *self.plain}
        self.alike = [name for name, part in kept.items() if looks_equal(part)]
        # A captured function that looks the same is recreated for the same reason.
        self.objects = [
            name
            for name, part in kept.items()
            if name not in known and (not is_function(part) or is_another_function(part))
        ]
        self.functions = [name for name in kept if name not in (*known, *self.objects)]
        """Functions that were created again as well, from the same code."""

    def made_of_numbers(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of these functions and objects in which only numbers differ."""
        numbers = {*self.numbers}
        below = {name: {one for one in self.names if is_below(one, (name,))} for name in names}
        return tuple(name for name, own in below.items() if own and own <= numbers)


def _holds_functions(side: Value | None) -> bool:
    """Whether a value holds a function of which not all is known that it reads."""
    return side is not None and not is_complete(side)


def _is_optional(change: Change) -> bool:
    """Whether an array is None in one call: both can be passed, and each has its program."""
    sides = [side for side in values_of(change) if side is not None]
    arrays = [side for side in sides if side.type != "NoneType"]
    return len(sides) == 2 and len(arrays) == 1 and all(map(holds_arrays, arrays))


def _public(name: str) -> str:
    """The name up to where flax counts its modules: nothing depends on that."""
    return name.partition("._id")[0]


def _fields(change: Change) -> tuple[Change, ...]:
    """What changed inside a value. For a function, whatever is known to have changed."""
    found = field_changes(change)
    return found or field_changes(change, whole=not is_function(change)) or (change,)


def _named_once(found: dict[str, Change]) -> list[str]:
    """Drop what a function holds if it is held, or known by a better name, beside that function.

    `config['rate']` is what `schedule.config['rate']` and `<lambda>.config['rate']` are too.
    """
    tails = {name.partition(".")[2]: name for name in found if not name.startswith("<")}
    kept: list[str] = []
    for name, part in found.items():
        tail = name.partition(".")[2]
        other = found.get(tail) or (found.get(tails.get(tail, "")) if name[0] == "<" else None)
        if other is None or other is part or values_of(other) != values_of(part):
            kept.append(name)
    return kept


def is_in(name: str, holders: Sequence[str]) -> bool:
    """Whether the name is one of these, or a part of one."""
    return name in holders or is_below(name, holders)


def is_about(name: str, others: tuple[str, ...]) -> bool:
    """Whether the name is one of these, a part of one, or what one is a part of."""
    return is_in(name, others) or any(is_below(one, (name,)) for one in others)


def is_below(name: str, holders: Sequence[str]) -> bool:
    """Whether the name is a part of one of these."""
    return name.startswith(tuple(f"{holder}{end}" for holder in holders for end in "[."))


def containers(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The paths, with a list or tuple in place of several of its items."""
    within = [_ITEM.sub("", path) for path in paths]
    return tuple(
        dict.fromkeys(
            whole if within.count(whole) > 1 else path
            for path, whole in zip(paths, within, strict=True)
        )
    )


_ITEM = regex(r"\[\d+\]$")


def may_hold_another(evidence: Evidence, values: Sequence[Change]) -> bool:
    """Whether a constant changed that is none of these values, nor one of their fields."""
    parts = [part for each in values for part in field_changes(each, whole=False) or (each,)]
    return evidence.program is not None and not is_explained(evidence.program, parts)
