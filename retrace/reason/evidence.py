"""The facts that advice is based on, and helpers to name them."""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from typing import cast

from retrace.model import (
    Change,
    Component,
    Dim,
    Miss,
    NamedChange,
    ShapeChange,
    Value,
    ValueChange,
)
from retrace.model.change import together
from retrace.model.parts import OF_ARGUMENTS
from retrace.reason.program import Comparison
from retrace.reason.resized import Resized
from retrace.regex import regex

OF_VALUES = OF_ARGUMENTS | {Component.TREE}
"""The parts of the arguments that hold Python values: some as they are, others in the static
fields of containers."""


class Evidence:
    """What is known about a miss when giving advice."""

    def __init__(
        self,
        miss: Miss,
        nearest: Miss | None,
        changes: tuple[Change, ...],
        program: Comparison | None,
    ) -> None:
        self.miss, self.nearest = miss, nearest
        self.changes = together(changes)
        """Including changes outside the function that it reads."""
        self.program = program

    @property
    def components(self) -> frozenset[Component]:
        """The parts of the key and the function that changed."""
        return self.changes.components

    @cached_property
    def resized(self) -> Resized:
        """Its arrays that changed size."""
        return Resized(self.miss, self.changes, self.program)

    @cached_property
    def sizes(self) -> frozenset[tuple[object, object]]:
        """The sizes that changed in arrays that were passed, or that the programs return."""
        shapes = (change for change in self.changes if isinstance(change, ShapeChange))
        passed: set[tuple[object, object]] = {
            (a, b)
            for shape in shapes
            for _, a, b in shape.resized or ()
            if {type(a), type(b)} == {int}
        }
        return frozenset(passed | (set() if self.program is None else self.program.sizes))


def paths(changes: tuple[Change, ...], *components: Component) -> list[str]:
    """The distinct paths of the changes of some components."""
    found = [c.path for c in changes if c.component in components and c.path is not None]
    return list(dict.fromkeys(found))


def named_changes(
    changes: tuple[Change, ...], components: Container[Component]
) -> list[NamedChange]:
    """The changes of some parts of the key that hold values by name."""
    return [c for c in changes if isinstance(c, NamedChange) and c.component in components]


def values_of(change: Change) -> tuple[Value | None, Value | None]:
    """Both sides of a change of a Python value; None for other changes."""
    return (change.old, change.new) if isinstance(change, ValueChange) else (None, None)


def types_of(change: Change) -> tuple[str, str]:
    """The types of both sides of a change of a Python value; empty if there is none."""
    old, new = values_of(change)
    return "" if old is None else old.type, "" if new is None else new.type


def same_but_scope(old: Dim, new: Dim) -> bool:
    """Whether two symbolic sizes read the same and JAX distinguishes them by their scopes."""
    if isinstance(old, int) or isinstance(new, int) or old == new:
        return False
    return old.partition("@")[0] == new.partition("@")[0]


def grown(old: Dim, new: Dim) -> int | None:
    """How much a size grew, or None if one is symbolic."""
    return new - old if isinstance(old, int) and isinstance(new, int) else None


_FUNCTIONS = ("function", "method", "partial", "PjitFunction", "custom_vjp", "custom_jvp")


def is_function(change: Change) -> bool:
    """Whether a value in a key or closure is now a function; only a new function replaces it."""
    return types_of(change)[1].rpartition(".")[2] in _FUNCTIONS


def is_by_identity(change: Change) -> bool:
    """Whether both sides of a change are objects that only equal themselves."""
    return all(
        side is not None and _BY_IDENTITY.fullmatch(str(side.token)) for side in values_of(change)
    )


def is_compared_by_fields(change: Change) -> bool:
    """Whether both sides are objects that are equal if all that they hold is."""
    return not any(
        side is None
        or _BY_IDENTITY.fullmatch(str(side.token))
        or _BY_ITSELF.fullmatch(str(side.token))
        for side in values_of(change)
    )


_BY_IDENTITY = regex(r".*#\d+")
"""The token of an object that only equals itself."""
_BY_ITSELF = regex(r"(#\d+ )?=\d+")
"""The token of an object whose class compares in its own way."""


def is_bools(change: Change) -> bool:
    """Whether it is now an array of bools."""
    new = values_of(change)[1]
    return new is not None and new.text.startswith("bool[")


def is_another_function(change: Change) -> bool:
    """Whether a function holds or reads another function with different code."""
    old, new = values_of(change)
    return is_function(change) and new is not None and (old is None or old.text != new.text)


_INNER = regex(r"<\w+ [^<>]*(?:<[^<>]*>[^<>]*)*>")


def is_of_other_code(change: Change) -> bool:
    """Whether a function became one of other code, not only over other values or arguments."""
    if not is_another_function(change):
        return False
    old, new = values_of(change)
    found = [_INNER.search(side.text) for side in (old, new) if side is not None]
    texts = [one[0] for one in found if one is not None]
    # A partial is printed with the function and what it binds.
    return len(texts) < 2 or texts[0] != texts[1]


_ARRAY = regex(r"\w+\[[\d,]*\]|\w+<\w+>\[[\d,]*\]")


def is_arrays(change: Change) -> bool:
    """Whether both sides are arrays, or trees of arrays and numbers."""
    return all(value is not None and holds_arrays(value) for value in values_of(change))


def holds_arrays(value: Value) -> bool:
    """Whether a value is an array, or a tree of arrays and numbers."""
    return not value.is_leaf and _is_arrays(value.data or value.text)


def _is_arrays(data: object) -> bool:
    if isinstance(data, dict):
        parts = cast(dict[str, object], data)
        return "array" in parts or (bool(parts) and all(map(_is_leaf, parts.values())))
    if isinstance(data, list):
        items = cast(list[object], data)
        return bool(items) and all(map(_is_leaf, items)) and any(map(_is_arrays, items))
    return is_array_type(data)


def is_array_type(data: object) -> bool:
    """Whether a part of a value is an array whose contents were not recorded: `float32[8]`."""
    return isinstance(data, str) and _ARRAY.fullmatch(data) is not None


def _is_leaf(data: object) -> bool:
    return _is_arrays(data) or type(data) in (int, float)


def innermost(found: list[str]) -> list[str]:
    """Drop paths that contain another of the paths: `cfg` beside `cfg.lr`."""
    return [
        path
        for path in found
        if not any(other.startswith((f"{path}.", f"{path}[")) for other in found)
    ]


def is_numeric(change: Change) -> bool:
    """Whether both sides of a change are numbers."""
    return all(map(is_number, types_of(change)))


def is_number(type_: str) -> bool:
    """Whether an array could replace values of the type with this name."""
    return type_ in ("bool", "int", "float") or type_.startswith("numpy.")


def is_whole(dtype: str) -> bool:
    """Whether arrays of a dtype hold integers or truth values, which may be an index."""
    return dtype.startswith(("int", "uint", "bool"))


def package_of(file: str | None) -> str:
    """A phrase for the installed package that a file belongs to."""
    folders = PurePath(file or "").parts
    for folder, within in pairwise(folders):
        if folder in ("site-packages", "dist-packages"):
            return within.removesuffix(".py")
    return "a library"
