"""Single steps from a value to what it holds, without running any code of the user's."""

from __future__ import annotations

from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from retrace.capture.bytecode import Item
from retrace.capture.objects import attributes_of, defined, derives, kind_of
from retrace.capture.place import Owner, owner

MISSING = object()
"""In place of what is not there, or cannot be had without running code."""


def is_users(module: ModuleType) -> bool:
    """Whether the user wrote a module."""
    names = object.__getattribute__(module, "__dict__")
    file = names.get("__file__")
    if type(file) is not str:
        return names.get("__name__") == "__main__"
    return owner(file) is Owner.USER


def step_into(value: Any, step: str | Item) -> Any:
    """Take one step without running user code; `MISSING` if that is impossible."""
    kind = kind_of(value)
    if isinstance(step, Item):
        if kind is dict:
            return value.get(step.key, MISSING)
        if (kind is list or kind is tuple) and type(step.key) is int:
            return value[step.key] if 0 <= step.key < len(value) else MISSING
        return MISSING
    if kind is ModuleType:
        names = object.__getattribute__(value, "__dict__")
        return names.get(step, MISSING) if is_users(value) else MISSING
    if derives(kind, type):
        return _plain(defined(value, step))
    of_class = defined(kind, step)
    if type(of_class) is MemberDescriptorType:
        try:
            return of_class.__get__(value, kind)
        except (AttributeError, TypeError):  # a class body may refer to another class's slot
            return MISSING
    if of_class is None or not _is_data_descriptor(of_class):
        attributes = attributes_of(value)
        if step in attributes:
            return attributes[step]
    return _plain(of_class)


def getter_of(value: Any, step: str | Item) -> FunctionType | None:
    """The getter, if a step is a property."""
    found = defined(kind_of(value), step) if isinstance(step, str) else None
    getter = found.fget if type(found) is property else None
    return getter if type(getter) is FunctionType else None


def _is_data_descriptor(of_class: Any) -> bool:
    return defined(kind_of(of_class), "__set__") is not None


def _plain(of_class: Any) -> Any:
    """A class attribute, if reading it runs no code."""
    if of_class is None or type(of_class) is FunctionType:
        return MISSING if of_class is None else of_class
    return MISSING if defined(kind_of(of_class), "__get__") is not None else of_class
