"""What a function returns besides arrays: containers, keys, classes and static metadata.

JAX keeps it with the program and gives it back at each hit. It is no part of the jaxpr.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import eq
from typing import Any, cast

from retrace.capture.classes import CLASSES
from retrace.capture.objects import derives, kind_of, own, tuple_fields, type_name
from retrace.capture.snapshot import snapshot
from retrace.failure import asked
from retrace.jax_internals.listed import is_listed
from retrace.model import JSON, Value

_MAX_TEXT = 200
_MAX_NODES = 500
_BRACKETS = {tuple: "()", list: "[]", dict: "{}"}


def same(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool | None:
    """Whether two traces returned the same, arrays aside; None if that cannot be determined.

    Args:
        old: the treedefs of what the first trace returned.
        new: those of the second.
    """
    if len(old) != len(new):
        return None
    answers = [_same(*pair) for pair in zip(old, new, strict=True)]
    return False if False in answers else None if None in answers else True


def described(trees: tuple[Any, ...]) -> Value:
    """What was returned, as a value to show."""
    found = _Described(_shown)
    text = ", ".join([found.node(tree) for tree in trees])
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT - 3]}..."
    return Value("PyTreeDef", text, None, found.exact)


def _same(old: Any, new: Any) -> bool | None:
    if (equal := asked(eq, old, new)) is None:  # metadata may define how it compares
        return None
    before, after = _Described(_content), _Described(_content)
    same_text = before.node(old) == after.node(new)
    if equal:
        # Equality is not enough: 1 == 1.0 == True, and a wrapper may compare no more than shapes.
        return True if same_text else False if before.is_plain and after.is_plain else None
    if not same_text:
        return False
    # Metadata that is equal to nothing but itself, such as a function made at each trace.
    return True if before.exact and after.exact else None


class _Described:
    """Writes down treedefs."""

    def __init__(self, metadata: Callable[[Value], str]) -> None:
        self.exact = True
        """Whether all of it was written down."""
        self.is_plain = True
        """Whether its metadata are numbers and texts, which no class of the user's compares."""
        self._metadata = metadata
        self._room = _MAX_NODES

    def node(self, tree: Any) -> str:
        self._room -= 1
        if self._room < 0:
            self.exact = False
            return "..."
        if (data := tree.node_data()) is None:
            return "*"
        kind, metadata = data
        if kind is type(None):
            return "None"
        children = [self.node(child) for child in tree.children()]
        if kind is dict:
            pairs = zip(metadata, children, strict=True)
            children = [f"{self._value(key)}: {child}" for key, child in pairs]
        if is_listed(kind, _BRACKETS):
            opening, closing = _BRACKETS[kind]
            end = "," if kind is tuple and len(children) == 1 else ""
            return f"{opening}{', '.join(children)}{end}{closing}"
        if (names := tuple_fields(kind)) is not None and len(names) == len(children):
            children = [f"{name}={child}" for name, child in zip(names, children, strict=True)]
        elif metadata is not None and not derives(kind_of(metadata), type):
            children.append(self._value(metadata))
        return f"{self._class(kind)}({', '.join(children)})"

    def _class(self, kind: type) -> str:
        known = CLASSES.of(kind)
        again = f"#{known.number}" if known is not None and known.number > 1 else ""
        return (str(own(kind, "__name__")) if again == "" else type_name(kind)) + again

    def _value(self, value: Any) -> str:
        found = snapshot(value, _no_token)
        self.exact = self.exact and found.exact
        self.is_plain = self.is_plain and found.exact and _is_plain(found.data)
        return self._metadata(found)


def _is_plain(data: JSON) -> bool:
    if isinstance(data, dict):
        return "$type" not in data and all(map(_is_plain, cast(dict[str, JSON], data).values()))
    return all(map(_is_plain, cast(list[JSON], data))) if isinstance(data, list) else True


def _shown(value: Value) -> str:
    return value.text


def _content(value: Value) -> str:
    return f"{value.type} {value.text} {value.data}"


def _no_token(_: object) -> str | None:
    return None
