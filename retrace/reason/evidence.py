"""What advice is given on, and how it names what it is about."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import PurePath
from typing import NamedTuple, cast

from retrace.model import Change, Component, Dim, Miss, Value, ValueChange
from retrace.reason.program import Comparison


class Evidence(NamedTuple):
    """What advice is given on."""

    miss: Miss
    nearest: Miss | None
    changes: tuple[Change, ...]
    """Also of what the function reads from outside."""
    program: Comparison | None


def paths(changes: tuple[Change, ...], *components: Component) -> list[str]:
    """The paths of the changes of some components, each once."""
    found = [c.path for c in changes if c.component in components and c.path is not None]
    return list(dict.fromkeys(found))


def root(path: str) -> str:
    """The name that a path begins with: the argument, or the variable."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def values_of(change: Change) -> tuple[Value | None, Value | None]:
    """Both sides of a change of a Python value; of another change there are none."""
    return (change.old, change.new) if isinstance(change, ValueChange) else (None, None)


def types_of(change: Change) -> tuple[str, str]:
    """The types of both sides of a change of a Python value; empty where there is none."""
    old, new = values_of(change)
    return "" if old is None else old.type, "" if new is None else new.type


def same_but_scope(old: Dim, new: Dim) -> bool:
    """Whether two symbolic sizes read alike, and JAX tells them apart by their scopes."""
    if isinstance(old, int) or isinstance(new, int) or old == new:
        return False
    return old.partition("@")[0] == new.partition("@")[0]


def grown(old: Dim, new: Dim) -> int | None:
    """By how much a size became greater; None where one is symbolic."""
    return new - old if isinstance(old, int) and isinstance(new, int) else None


_FUNCTIONS = ("function", "method", "partial", "PjitFunction", "custom_vjp", "custom_jvp")


def is_function(change: Change) -> bool:
    """Whether a value of a key or a closure is now a function, which only a new one replaces."""
    return types_of(change)[1].rpartition(".")[2] in _FUNCTIONS


def is_another_function(change: Change) -> bool:
    """Whether a function holds or reads another function than before, of other code."""
    old, new = values_of(change)
    return is_function(change) and new is not None and (old is None or old.text != new.text)


_ARRAY = re.compile(r"\w+\[[\d,]*\]|\w+<\w+>\[[\d,]*\]")


def is_arrays(change: Change) -> bool:
    """Whether both sides are arrays, or trees of arrays and numbers."""
    return all(value is not None and holds_arrays(value) for value in values_of(change))


def holds_arrays(value: Value) -> bool:
    """Whether a value is an array, or a tree of arrays and numbers."""
    return _is_arrays(value.data or value.text)


def _is_arrays(data: object) -> bool:
    if isinstance(data, dict):
        parts = cast(dict[str, object], data)
        return "array" in parts or (bool(parts) and all(map(_is_leaf, parts.values())))
    if isinstance(data, list):
        items = cast(list[object], data)
        return bool(items) and all(map(_is_leaf, items)) and any(map(_is_arrays, items))
    return isinstance(data, str) and _ARRAY.fullmatch(data) is not None


def _is_leaf(data: object) -> bool:
    return _is_arrays(data) or type(data) in (int, float)


def innermost(found: list[str]) -> list[str]:
    """Without those of which a part is among them: `cfg` beside `cfg.lr`."""
    return [
        path
        for path in found
        if not any(other.startswith((f"{path}.", f"{path}[")) for other in found)
    ]


def is_numeric(change: Change) -> bool:
    """Whether both sides of a change are numbers."""
    return all(map(is_number, types_of(change)))


def is_number(type_: str) -> bool:
    """Whether a type, by its name, is one that an array could stand for."""
    return type_ in ("bool", "int", "float") or type_.startswith("numpy.")


def package_of(file: str | None) -> str:
    """The installed package that a file belongs to, in words."""
    folders = PurePath(file or "").parts
    for folder, within in pairwise(folders):
        if folder in ("site-packages", "dist-packages"):
            return within.removesuffix(".py")
    return "a library"
