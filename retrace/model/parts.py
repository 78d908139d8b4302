"""The parts of a key that hold values by name, for all that treats them alike.

What each room does with a part that it treats in a way of its own stands in that room. There the
key is taken apart into all of its parts at once, so that the type checker finds each room that
does not know of a new one.
"""

from __future__ import annotations

from typing import TypeAlias

from retrace.model.change import Component
from retrace.model.key import Key, Value

Named: TypeAlias = tuple[tuple[str, Value], ...]


def named(key: Key) -> tuple[tuple[Component, Named], ...]:
    """The values of a key that have a name, with the component that a change of them has."""
    _leaves, _tree, static, _signature, options, config = key
    return (
        (Component.STATIC, static),
        (Component.OPTIONS, options),
        (Component.CONFIG, config),
    )


NAMED = tuple([component for component, _ in named(Key())])
"""The components of those parts."""
