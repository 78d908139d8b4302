"""Finds the current value of what a function's bytecode names, without running any of it."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from retrace.auditing.stack import ELEMENT, Place
from retrace.capture.objects import attributes_of, defined, derives, kind_of
from retrace.jax_internals.listed import is_listed

_MISSING = object()
_MAX_ELEMENTS = 16
_CONTAINERS = (list, tuple, set, frozenset)


def values(place: Place, function: FunctionType, receiver: Any = None) -> list[Any]:
    """The values at a place; several if it stands for any element of a container.

    Args:
        place: a place in the code of the function.
        function: provides the globals and cells.
        receiver: the object bound to its first parameter.
    """
    found = [_root(place, function, receiver)]
    for step in place.steps:
        found = [value for value in found if value is not _MISSING]
        if step == ELEMENT:
            found = [inner for value in found for inner in _elements(value)][:_MAX_ELEMENTS]
        else:
            found = [_attribute(value, step) for value in found]
    return [value for value in found if value is not _MISSING]


def _root(place: Place, function: FunctionType, receiver: Any) -> Any:
    if place.source == "self":
        return receiver
    if place.source == "global":
        names: dict[str, Any] = function.__globals__
        return names.get(place.name, builtins.__dict__.get(place.name, _MISSING))
    free = function.__code__.co_freevars
    if place.source == "cell" and place.name in free and function.__closure__ is not None:
        try:
            return function.__closure__[free.index(place.name)].cell_contents
        except ValueError:
            return _MISSING
    return _MISSING


def _elements(value: Any) -> list[Any]:
    kind = kind_of(value)
    held: Iterable[Any]
    if derives(kind, dict):
        # Bypasses any override of `values` in a user class.
        plain: Any = dict
        held = plain.values(value)
    elif is_listed(kind, _CONTAINERS):
        held = cast(Iterable[Any], value)
    elif derives(kind, np.ndarray):
        held = (value,)  # a view is of the same memory
    else:
        return []
    # Copied: another thread may change it meanwhile.
    return list(held)[:_MAX_ELEMENTS]


def _attribute(value: Any, name: str) -> Any:
    kind = kind_of(value)
    held: dict[str, Any] = attributes_of(value)
    if kind is ModuleType:
        held = cast(dict[str, Any], object.__getattribute__(value, "__dict__"))
    if name in held:
        return held[name]
    if name == "__dict__" and held:
        return held
    if name == "__class__":
        return kind
    found = defined(value if derives(kind, type) else kind, name)
    return _MISSING if found is None else found
