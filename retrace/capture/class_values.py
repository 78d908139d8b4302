"""What the classes of objects define for those that do not set it themselves."""

from __future__ import annotations

from typing import TypeAlias

from retrace.capture.objects import mro_attributes
from retrace.model import JSON, Value

ClassValues: TypeAlias = dict[str, dict[str, JSON]]
"""By the name of an object, what its class defines."""


def class_values(kind: type) -> dict[str, JSON]:
    """The plain values that a class and its bases define."""
    found: dict[str, JSON] = {}
    for attributes in reversed(mro_attributes(kind)):
        found |= {
            name: value
            for name, value in attributes.items()
            if name[:2] != "__" and type(value) in (bool, int, float, str, type(None))
        }
    return found


def set_from_classes(then: dict[str, Value], now: dict[str, Value], defined: ClassValues) -> None:
    """Add to values of one object what was in force where only one of them sets it.

    Args:
        then: values by name, as they were recorded.
        now: what they are now.
        defined: what the classes of some of them define now.
    """
    for name in then.keys() & now.keys() & defined.keys():
        old, new = then[name], now[name]
        before, after = old.data, new.data
        if old.type == new.type and isinstance(before, dict) and isinstance(after, dict):
            of_class = {
                key: value
                for key, value in defined[name].items()
                if (key in before) != (key in after)
            }
            then[name] = old._replace(data=of_class | before)
            now[name] = new._replace(data=of_class | after)
